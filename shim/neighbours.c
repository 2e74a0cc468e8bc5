/* Asking other processes to trim; see neighbours.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "shim/neighbours.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf.h"
#include "shim/ledger.h"
#include "shim/state.h"
#include "shim/wide.h"
#include "stats/clock.h"
#include "stats/ledger.h"
#include "stats/log.h"
#include "stats/requests.h"
#include "stats/ring.h"

#define MAX_NEIGHBOURS 64
#define MAX_NAMES      8192        /* of the directory that are looked at */
#define LOOK_NS        300000      /* between looks for an answer */
#define STALE_NS       3000000000u /* its thread does not run */

struct neighbour {
	int fd;
	struct gp_file_head head;
	uint64_t spare; /* bytes it could give, as its ledger says */
	struct gp_request request;
};

struct asking {
	struct gp_process_id self;
	const uint8_t *uuid;
	uint64_t now_ns;
	size_t n;
	struct neighbour *neighbours; /* MAX_NEIGHBOURS */
};

/* One thread asks at a time; the others have what it got. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t rounds_with_gain; /* atomic */
static uint32_t serial;           /* guarded by lock */

static bool read_names(int fd, const struct gp_file_head *head, char *names,
		       size_t size)
{
	if (head->names_bytes >= size ||
	    pread(fd, names, head->names_bytes, head->names_at) !=
		    (ssize_t)head->names_bytes)
		return false;
	names[head->names_bytes] = '\0';
	return true;
}

static uint64_t word(const struct gp_ledger_copy *row, const char *names,
		     const char *name)
{
	int at = gp_ledger_word(names, "device", name);

	return at < 0 ? 0 : row->words[at];
}

/* Is it on our device? And what does it cache there above its floor? That may
 * have changed since it wrote it down; one that has just begun has written of no
 * device yet, and is asked to be sure. */
static bool shares_device(struct neighbour *neighbour, const uint8_t uuid[16])
{
	static char names[16384]; /* guarded by lock */
	const struct gp_file_head *head = &neighbour->head;
	struct gp_ledger_copy row;
	bool written = false;

	if (!read_names(neighbour->fd, head, names, sizeof(names)))
		return false;
	for (unsigned i = 1; i < head->num_rows && i <= GP_LEDGER_DEVICES;
	     i++) {
		if (gp_ledger_read(neighbour->fd, head, i, &row))
			continue;
		written = true;
		if (memcmp(row.uuid, uuid, sizeof(row.uuid)) != 0)
			continue;
		uint64_t reserved =
			word(&row, names, "reserved_bytes.all.current");
		uint64_t cached = word(&row, names, "cached_bytes");
		uint64_t floor = word(&row, names, "reserve_floor_bytes");
		uint64_t most = reserved > floor ? reserved - floor : 0;

		neighbour->spare = cached < most ? cached : most;
		return true;
	}
	neighbour->spare = 0;
	return !written;
}

static bool answers(const struct gp_file_head *head,
		    const struct asking *asking)
{
	return gp_file_alive(head, &asking->self) &&
	       asking->now_ns - head->beat_mono_ns < STALE_NS;
}

static void look(void *arg, int dir, const char *name)
{
	struct asking *asking = arg;
	struct neighbour *neighbour;
	struct gp_file_name parts;
	const char *why;
	int rc;

	if (asking->n == MAX_NEIGHBOURS || !gp_file_name_read(name, &parts) ||
	    parts.pid == asking->self.pid)
		return;
	neighbour = &asking->neighbours[asking->n];
	neighbour->fd = gp_file_open(dir, name, &why);
	if (neighbour->fd == -ENOENT)
		return;
	rc = neighbour->fd < 0
		     ? neighbour->fd
		     : gp_file_read_head(neighbour->fd, &neighbour->head, &why);
	if (rc) {
		struct gp_process_id id = asking->self;

		id.pid = parts.pid;
		id.start = parts.start;
		/* One that has just begun is not written yet. One that was
		 * killed over it is nothing to tell; it is swept some day. */
		if (rc != -ENODATA &&
		    gp_process_life(&id, &asking->self) != GP_ALIVE)
			gp_warn("%s in the runtime directory is not used: %s",
				name, why);
	} else if (answers(&neighbour->head, asking)) {
		neighbour->request.fd = -1;
		if (shares_device(neighbour, asking->uuid)) {
			asking->n++;
			return;
		}
	}
	if (neighbour->fd >= 0)
		close(neighbour->fd);
}

static int most_first(const void *a, const void *b)
{
	const struct neighbour *x = a, *y = b;

	return x->spare < y->spare ? 1 : x->spare > y->spare ? -1 : 0;
}

static void send(struct asking *asking, int dir, struct neighbour *neighbour,
		 uint64_t bytes, uint64_t deadline)
{
	char text[GP_REQUEST_TEXT], hex[33];
	uint64_t now = gp_clock_ns(CLOCK_MONOTONIC),
		 left = deadline > now ? deadline - now : 0;

	for (size_t i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", asking->uuid[i]);
	/* In time for its answer to come. */
	snprintf(text, sizeof(text), "trim-for %llu %s %llu",
		 (unsigned long long)bytes, hex,
		 (unsigned long long)(left / 1000000 * 3 / 4));
	gp_request_send(dir, neighbour->fd, &neighbour->head, &asking->self,
			++serial, text, &neighbour->request);
}

/* What has been given of what is asked; *left: requests without an answer. */
static uint64_t collect(struct asking *asking, int dir, unsigned *left)
{
	char answer[GP_REQUEST_TEXT];
	uint64_t given = 0;

	*left = 0;
	for (size_t i = 0; i < asking->n; i++) {
		struct neighbour *neighbour = &asking->neighbours[i];

		if (neighbour->request.fd < 0)
			continue;
		if (gp_request_answered(&neighbour->request, answer)) {
			if (!strncmp(answer, "ok ", 3))
				given += strtoull(answer + 3, NULL, 10);
			gp_request_end(dir, &neighbour->request);
		} else {
			(*left)++;
		}
	}
	return given;
}

/* The richest first, and no more of them than it takes; then the others, if
 * those did not have it after all. */
static uint64_t ask_round(struct asking *asking, int dir, uint64_t bytes,
			  uint64_t deadline)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	uint64_t given = 0, promised = 0;
	size_t next = 0;
	unsigned left;

	for (;;) {
		while (next < asking->n && given + promised < bytes) {
			struct neighbour *neighbour =
				&asking->neighbours[next++];
			uint64_t want = bytes - given - promised;

			send(asking, dir, neighbour, want, deadline);
			promised += want < neighbour->spare ? want
							    : neighbour->spare;
		}
		given += collect(asking, dir, &left);
		if (!left) {
			promised = 0;
			if (given >= bytes || next == asking->n)
				return given;
			continue;
		}
		if (gp_clock_ns(CLOCK_MONOTONIC) >= deadline)
			return given;
		nanosleep(&pause, NULL);
	}
}

struct question {
	const uint8_t *uuid;
	uint64_t bytes, given;
	int dir;
};

static void ask_all(void *arg)
{
	struct question *question = arg;
	static struct neighbour neighbours[MAX_NEIGHBOURS]; /* under lock */
	struct asking asking = {.uuid = question->uuid,
				.neighbours = neighbours};
	uint64_t wait = gp_settings()->neighbour_wait * 1000000;

	gp_process_self(&asking.self);
	asking.now_ns = gp_clock_ns(CLOCK_MONOTONIC);
	gp_runtime_dir_each(question->dir, MAX_NAMES, look, &asking);
	qsort(neighbours, asking.n, sizeof(*neighbours), most_first);
	question->given = ask_round(&asking, question->dir, question->bytes,
				    asking.now_ns + wait);
	for (size_t i = 0; i < asking.n; i++) {
		gp_request_end(question->dir, &neighbours[i].request);
		close(neighbours[i].fd);
	}
	gp_ledger_count_asked(asking.n, question->given);
}

uint64_t gp_neighbours_ask(const uint8_t uuid[16], uint32_t device,
			   uint64_t bytes)
{
	uint64_t before = __atomic_load_n(&rounds_with_gain, __ATOMIC_ACQUIRE);
	struct question question = {.uuid = uuid, .bytes = bytes};
	int saved = errno;

	/* Not in a vfork child, which shares our memory. */
	if (!gp_file || !gp_settings()->neighbour_wait ||
	    (uint32_t)getpid() != gp_file->pid)
		return 0;
	pthread_mutex_lock(&lock);
	if (before != __atomic_load_n(&rounds_with_gain, __ATOMIC_ACQUIRE)) {
		question.given = 1;
	} else {
		question.dir = gp_runtime_dir_reopen(gp_file_dir());
		if (question.dir >= 0) {
			gp_wide(ask_all, &question);
			close(question.dir);
		}
		if (question.given)
			__atomic_add_fetch(&rounds_with_gain, 1,
					   __ATOMIC_RELEASE);
		gp_ring_add(GP_RING_neighbour, device, 0, bytes, question.given,
			    0, 0);
	}
	pthread_mutex_unlock(&lock);
	errno = saved;
	return question.given;
}
