/*
 * Reports that went to the runtime directory, for want of a better place, do
 * not pile up there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/clock.h"
#include "stats/report_name.h"
#include "stats/runtime_dir.h"

#define MAX_NAMES 8192 /* of the directory that are looked at */
#define MAX_FOUND 512
#define NEWEST    2 /* files of one report, which stays in any case */

struct found {
	char name[256];
	uint64_t bytes, time; /* on disk; last written, ns */
};

struct search {
	struct found *found;
	size_t n;
};

static bool ends(const char *name, const char *ending)
{
	const size_t n = strlen(name), m = strlen(ending);

	return n > m && !strcmp(name + n - m, ending);
}

static void look(void *arg, int dir, const char *name)
{
	struct search *search = arg;
	struct found *found;
	struct stat info;

	if ((!ends(name, ".txt") && !ends(name, ".json")) ||
	    strlen(name) >= sizeof(found->name) || search->n == MAX_FOUND ||
	    fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(info.st_mode))
		return;
	found = &search->found[search->n++];
	strcpy(found->name, name);
	found->bytes = (uint64_t)info.st_blocks * 512;
	found->time = gp_ns(&info.st_mtim);
}

static int newest_first(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return x->time < y->time ? 1 : x->time > y->time ? -1 : 0;
}

void gp_report_keep(int dir, uint64_t files, uint64_t bytes)
{
	const int saved_errno = errno;
	struct search search = {
		.found = calloc(MAX_FOUND, sizeof(*search.found))};
	uint64_t sum = 0;

	if (!search.found)
		return;
	gp_runtime_dir_each(dir, MAX_NAMES, look, &search);
	qsort(search.found, search.n, sizeof(*search.found), newest_first);
	for (size_t i = 0; i < search.n; i++) {
		sum += search.found[i].bytes;
		if (i >= NEWEST && (i >= files || sum > bytes))
			unlinkat(dir, search.found[i].name, 0);
	}
	free(search.found);
	errno = saved_errno;
}
