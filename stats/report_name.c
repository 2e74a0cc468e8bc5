/* Names of report files; see report_name.h. */
#include "stats/report_name.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_WORD 128 /* of an executable's name, or any other */

/* What is safe on any file system and needs no quotes in a shell. */
static void sanitize(char *name)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789._-+";

	for (; *name; name++) {
		if (!strchr(safe, *name))
			*name = '_';
	}
}

const char *gp_report_exe(const char *exe, char *buf, size_t size)
{
	static const char deleted[] = " (deleted)";
	const char *slash = strrchr(exe, '/');
	size_t len;

	snprintf(buf, size, "%s", slash ? slash + 1 : exe);
	len = strlen(buf);
	/* The kernel adds it to /proc/self/exe after an upgrade. */
	if (len >= sizeof(deleted) &&
	    !strcmp(buf + len - (sizeof(deleted) - 1), deleted))
		buf[len - (sizeof(deleted) - 1)] = '\0';
	if (!buf[0])
		snprintf(buf, size, "unknown");
	return buf;
}

static void print_time(uint64_t unix_ns, char word[MAX_WORD])
{
	time_t seconds = (time_t)(unix_ns / 1000000000u);
	struct tm utc;

	if (!gmtime_r(&seconds, &utc) ||
	    !strftime(word, MAX_WORD, "%Y%m%dT%H%M%SZ", &utc))
		snprintf(word, MAX_WORD, "unknown");
}

static void word_for(char letter, const struct gp_report_words *words,
		     char word[MAX_WORD])
{
	char exe[512];

	switch (letter) {
	case 'e':
		snprintf(word, MAX_WORD, "%.*s", MAX_WORD - 1,
			 gp_report_exe(words->exe, exe, sizeof(exe)));
		break;
	case 'p':
		snprintf(word, MAX_WORD, "%d", words->pid);
		break;
	case 'h':
		snprintf(word, MAX_WORD, "%.*s", MAX_WORD - 1,
			 words->host && words->host[0] ? words->host
						       : "unknown");
		break;
	case 'r':
		snprintf(word, MAX_WORD, "%.*s", MAX_WORD - 1,
			 words->rank && words->rank[0] ? words->rank : "0");
		break;
	case 't':
		print_time(words->unix_ns, word);
		break;
	default:
		snprintf(word, MAX_WORD, "%%");
	}
	if (letter != '%')
		sanitize(word);
}

void gp_report_name(const char *pattern, const struct gp_report_words *words,
		    char base[GP_REPORT_BASE])
{
	char word[MAX_WORD];
	size_t used = 0;

	for (; *pattern && used + 1 < GP_REPORT_BASE; pattern++) {
		if (*pattern != '%' || !pattern[1]) {
			base[used++] = *pattern;
			continue;
		}
		word_for(*++pattern, words, word);
		used += (size_t)snprintf(base + used, GP_REPORT_BASE - used,
					 "%s", word);
		if (used >= GP_REPORT_BASE)
			used = GP_REPORT_BASE - 1;
	}
	base[used] = '\0';
}
