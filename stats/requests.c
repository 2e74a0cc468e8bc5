/* Requests between processes; see requests.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stats/requests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/bell.h"
#include "stats/log.h"
#include "stats/output.h"

/* The request's line lies at 0, the answer's behind it; each ends in a line
 * feed, which is written with it. */
#define ANSWER_AT 512

struct parties {
	uint32_t to, from;
	uint64_t to_start, from_start;
};

/* req-TO-START-FROM-START-SERIAL */
static void print_name(const struct parties *p, uint32_t serial, char *name,
		       size_t size)
{
	snprintf(name, size, "req-%u-%llu-%u-%llu-%u", p->to,
		 (unsigned long long)p->to_start, p->from,
		 (unsigned long long)p->from_start, serial);
}

static bool read_name(const char *name, struct parties *p)
{
	unsigned long long to_start, from_start;
	unsigned serial;
	char again[128];

	if (strncmp(name, "req-", 4) != 0 ||
	    sscanf(name, "req-%9u-%20llu-%9u-%20llu-%10u", &p->to, &to_start,
		   &p->from, &from_start, &serial) != 5)
		return false;
	p->to_start = to_start;
	p->from_start = from_start;
	print_name(p, serial, again, sizeof(again));
	return !strcmp(name, again);
}

static bool is_gone(uint32_t pid, uint64_t start,
		    const struct gp_process_id *self)
{
	struct gp_process_id id = *self;

	id.pid = pid;
	id.start = start;
	return gp_process_life(&id, self) == GP_DEAD;
}

/* ---- asking ----------------------------------------------------------------------- */

int gp_request_send(int dir, int target, const struct gp_file_head *head,
		    const struct gp_process_id *self, uint32_t serial,
		    const char *text, struct gp_request *request)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	const struct parties parties = {
		.to = head->pid,
		.to_start = head->start,
		.from = self->pid,
		.from_start = self->start,
	};
	char line[GP_REQUEST_TEXT];
	int saved = errno;
	int rc;

	print_name(&parties, serial, request->name, sizeof(request->name));
	request->fd = openat(dir, request->name, flags, 0600);
	rc = request->fd < 0 ? -errno : 0;
	if (!rc) {
		int n = snprintf(line, sizeof(line) - 1, "%s", text);

		if (n > (int)sizeof(line) - 2)
			n = (int)sizeof(line) - 2;
		line[n] = '\n';
		rc = gp_write_all(request->fd, line, (size_t)n + 1);
		if (rc)
			gp_request_end(dir, request);
		else
			gp_bell_ring_other(target);
	}
	errno = saved;
	return rc;
}

unsigned gp_request_answered(const struct gp_request *request, char *answer)
{
	int saved = errno;
	ssize_t n = request->fd < 0 ? -1
				    : pread(request->fd, answer,
					    GP_REQUEST_TEXT - 1, ANSWER_AT);
	char *end = n > 0 ? memchr(answer, '\n', (size_t)n) : NULL;

	errno = saved;
	if (!end)
		return 0;
	*end = '\0';
	return (unsigned)(end - answer) + 1;
}

void gp_request_end(int dir, struct gp_request *request)
{
	int saved = errno;

	if (request->fd < 0)
		return;
	unlinkat(dir, request->name, 0);
	close(request->fd);
	request->fd = -1;
	errno = saved;
}

/* ---- answering ---------------------------------------------------------------------- */

struct serving {
	const struct gp_process_id *self;
	void (*serve)(const char *text, char *answer);
	unsigned served;
};

static void answer_one(int fd, struct serving *serving)
{
	char text[GP_REQUEST_TEXT], answer[GP_REQUEST_TEXT + 1];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	char *end = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;
	char byte;

	if (!end || pread(fd, &byte, 1, ANSWER_AT) == 1)
		return; /* not written out yet; or answered */
	*end = '\0';
	answer[0] = '\0';
	serving->serve(text, answer);
	for (char *c = answer; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	strcat(answer, "\n");
	serving->served++;
	if (lseek(fd, ANSWER_AT, SEEK_SET) == ANSWER_AT)
		gp_write_all(fd, answer, strlen(answer));
}

static void look(void *arg, int dir, const char *name)
{
	struct serving *serving = arg;
	struct parties parties;
	const char *why;
	int fd;

	if (!read_name(name, &parties) || parties.to != serving->self->pid ||
	    parties.to_start != serving->self->start)
		return;
	if (is_gone(parties.from, parties.from_start, serving->self)) {
		unlinkat(dir, name, 0);
		return;
	}
	fd = gp_file_open(dir, name, &why);
	if (fd < 0) {
		/* ENOENT: taken back meanwhile. */
		if (fd != -ENOENT)
			gp_warn("%s in the runtime directory is not used: %s",
				name, why);
		return;
	}
	answer_one(fd, serving);
	close(fd);
}

unsigned gp_requests_serve(int dir, const struct gp_process_id *self,
			   void (*serve)(const char *text, char *answer))
{
	struct serving serving = {.self = self, .serve = serve};

	gp_runtime_dir_each(dir, 8192, look, &serving);
	return serving.served;
}

bool gp_request_sweep(int dir, const char *name,
		      const struct gp_process_id *self)
{
	struct parties parties;

	if (!read_name(name, &parties))
		return false;
	if (is_gone(parties.from, parties.from_start, self) ||
	    is_gone(parties.to, parties.to_start, self))
		unlinkat(dir, name, 0);
	return true;
}
