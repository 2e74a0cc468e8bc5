/* The process's file; see process_file.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stats/process_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/clock.h"
#include "stats/log.h"
#include "stats/output.h"
#include "stats/ring.h"

struct gp_file_head *gp_file;

/* Written by gp_file_start(), then constant. */
static char dir_path[PATH_MAX];
static char own_name[GP_FILE_NAME];

const char *gp_file_dir(void)
{
	return dir_path;
}

const char *gp_file_own_name(void)
{
	return own_name;
}

/* Bit by bit: headers and rows only, which are small and seldom. */
uint32_t gp_crc32(uint32_t crc, const void *data, size_t size)
{
	static uint32_t table[16]; /* every writer writes the same */
	const uint8_t *at = data;

	if (!__atomic_load_n(&table[15], __ATOMIC_ACQUIRE)) {
		for (uint32_t i = 0; i < 16; i++) {
			uint32_t c = i;

			for (int bit = 0; bit < 4; bit++)
				c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
			__atomic_store_n(&table[i], c, __ATOMIC_RELEASE);
		}
	}
	crc = ~crc;
	while (size--) {
		crc ^= *at++;
		crc = crc >> 4 ^
		      __atomic_load_n(&table[crc & 15], __ATOMIC_RELAXED);
		crc = crc >> 4 ^
		      __atomic_load_n(&table[crc & 15], __ATOMIC_RELAXED);
	}
	return ~crc;
}

static uint32_t head_crc(const struct gp_file_head *head)
{
	static const uint32_t none = 0;
	const size_t at = offsetof(struct gp_file_head, crc);
	const size_t after = at + sizeof(head->crc);
	uint32_t crc = gp_crc32(0, head, at);

	crc = gp_crc32(crc, &none, sizeof(none));
	return gp_crc32(crc, (const char *)head + after,
			offsetof(struct gp_file_head, state) - after);
}

/* ---- making it ---------------------------------------------------------------- */

static uint64_t pages(uint64_t bytes)
{
	return (bytes + GP_FILE_PAGE - 1) / GP_FILE_PAGE * GP_FILE_PAGE;
}

/* A new file under a name that nobody had. The image before an exec had the
 * same process. */
static int create(int dir, const struct gp_process_id *self, uint32_t *image)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	struct gp_file_name parts = {.pid = self->pid, .start = self->start};
	int fd;

	for (parts.image = 0; parts.image < 1000; parts.image++) {
		gp_file_name_print(&parts, own_name);
		fd = openat(dir, own_name, flags, 0600);
		if (fd >= 0 || errno != EEXIST) {
			*image = parts.image;
			return fd < 0 ? -errno : fd;
		}
	}
	return -EEXIST;
}

static void describe(struct gp_file_head *head,
		     const struct gp_file_options *options,
		     const struct gp_process_id *self, uint32_t image)
{
	ssize_t n;

	head->version = GP_FILE_VERSION;
	head->byte_order = GP_FILE_ORDER;
	head->pid = self->pid;
	head->uid = self->uid;
	head->image = image;
	head->start = self->start;
	head->pid_ns = self->pid_ns;
	head->names_at = GP_FILE_HEAD_BYTES;
	head->names_bytes = (uint32_t)strlen(options->names);
	head->rows_at =
		(uint32_t)(GP_FILE_HEAD_BYTES + pages(head->names_bytes + 1));
	head->row_bytes = options->row_bytes;
	head->num_rows = options->num_rows;
	head->event_bytes = sizeof(struct gp_ring_event);
	head->chunk_bytes = GP_RING_CHUNK;
	head->ring_at = head->rows_at +
			pages((uint64_t)options->row_bytes * options->num_rows);
	memcpy(head->boot_id, self->boot_id, sizeof(head->boot_id));
	n = readlink("/proc/self/exe", head->exe, sizeof(head->exe) - 1);
	if (n < 0)
		strcpy(head->exe, "unknown");
	snprintf(head->conf, sizeof(head->conf), "%s", options->conf);
#if defined(__aarch64__)
	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(head->ticks_per_s));
#endif
	head->unix_ns = gp_clock_ns(CLOCK_REALTIME);
	head->mono_ns = gp_clock_ns(CLOCK_MONOTONIC);
	head->ticks = gp_ticks();
}

/* Room for the file on the disk, so that no store into it can fail. With the
 * ring if there is room, else without. */
static int claim_room(int fd, struct gp_file_head *head, uint64_t ring_bytes)
{
	int rc;

	head->num_chunks = (uint32_t)(ring_bytes / GP_RING_CHUNK);
	head->file_bytes =
		head->ring_at + (uint64_t)head->num_chunks * GP_RING_CHUNK;
	rc = gp_allocate(fd, head->file_bytes);
	if (!rc || !ring_bytes)
		return rc;
	gp_warn("no events are recorded: %s/%s: %s (ring_size sets how much "
		"room they need)",
		dir_path, own_name, strerror(-rc));
	head->num_chunks = 0;
	head->file_bytes = head->ring_at;
	if (ftruncate(fd, 0))
		return -errno;
	return gp_allocate(fd, head->file_bytes);
}

static int fill(int fd, struct gp_file_head *head,
		const struct gp_file_options *options)
{
	int rc = claim_room(fd, head, options->ring_bytes);
	char *map;

	if (rc)
		return rc;
	memcpy(head->magic, GP_FILE_MAGIC, sizeof(head->magic));
	head->crc = head_crc(head);
	memset(head->magic, 0, sizeof(head->magic));
	map = mmap(NULL, head->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		   fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	/* Nothing is read ahead: there is nothing but zeros. */
	madvise(map, head->file_bytes, MADV_RANDOM);
	memcpy(map + head->names_at, options->names, head->names_bytes);
	head->state = GP_FILE_RUNS;
	head->beat_mono_ns = head->mono_ns;
	memcpy(map, head, sizeof(*head));
	/* The magic last: the file is whole. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(map, GP_FILE_MAGIC, sizeof(head->magic));
	__atomic_store_n(&gp_file, (struct gp_file_head *)(void *)map,
			 __ATOMIC_RELEASE);
	return 0;
}

static int make(int dir, const struct gp_file_options *options,
		const struct gp_process_id *self)
{
	static struct gp_file_head head; /* large, and used once */
	uint32_t image;
	int fd = create(dir, self, &image);
	int rc;

	if (fd < 0)
		return fd;
	describe(&head, options, self, image);
	rc = fill(fd, &head, options);
	if (rc)
		unlinkat(dir, own_name, 0);
	close(fd);
	return rc;
}

void gp_file_start(const struct gp_file_options *options)
{
	int saved = errno;
	struct gp_process_id self;
	const char *why;
	int dir, rc;

	dir = gp_runtime_dir_open(options->xdg, dir_path, &why);
	if (dir < 0) {
		gp_warn("%s is not used: %s (%s); set XDG_RUNTIME_DIR to a "
			"directory of yours",
			dir_path, why, strerror(-dir));
		dir_path[0] = '\0';
		errno = saved;
		return;
	}
	gp_process_self(&self);
	gp_runtime_dir_sweep(dir, &self, options->keep_files,
			     options->keep_bytes);
	rc = make(dir, options, &self);
	close(dir);
	if (rc) {
		gp_warn("nothing is recorded: cannot make %s/%s: %s", dir_path,
			own_name, strerror(-rc));
		own_name[0] = '\0';
	} else if (gp_file->num_chunks) {
		gp_ring_start(gp_file_at(gp_file->ring_at), gp_file->num_chunks,
			      &gp_file->taken);
	}
	errno = saved;
}

/* ---- while it runs --------------------------------------------------------------- */

void gp_file_beat(void)
{
	struct gp_file_head *head = gp_file;
	uint64_t now, ticks;

	if (!head)
		return;
	now = gp_clock_ns(CLOCK_MONOTONIC);
	ticks = gp_ticks();
	__atomic_store_n(&head->moment_mono_ns, now, __ATOMIC_RELAXED);
	__atomic_store_n(&head->moment_ticks, ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&head->moment_check, now + ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&head->beat_mono_ns, now, __ATOMIC_RELAXED);
}

void gp_file_end(void)
{
	struct gp_file_head *head = gp_file;

	if (!head)
		return;
	gp_file_beat();
	__atomic_store_n(&head->end_unix_ns, gp_clock_ns(CLOCK_REALTIME),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&head->state, GP_FILE_ENDED, __ATOMIC_RELAXED);
}

void gp_file_forget(void)
{
	gp_ring_stop();
	__atomic_store_n(&gp_file, NULL, __ATOMIC_RELEASE);
}

/* ---- other processes' files --------------------------------------------------------- */

int gp_file_open(int dir, const char *name, const char **why)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = openat(dir, name, flags);
	struct stat info;

	if (fd < 0) {
		*why = errno == ELOOP ? "it is a link" : "it cannot be opened";
		return -errno;
	}
	if (fstat(fd, &info))
		*why = "it cannot be looked at";
	else if (!S_ISREG(info.st_mode))
		*why = "it is no regular file";
	else if (info.st_uid != geteuid())
		*why = "it belongs to somebody else";
	else
		return fd;
	close(fd);
	return -EPERM;
}

static const char *fault(const struct gp_file_head *head, uint64_t size)
{
	const uint64_t rows_end =
		head->rows_at + (uint64_t)head->row_bytes * head->num_rows;

	if (memcmp(head->magic, GP_FILE_MAGIC, sizeof(head->magic)) != 0)
		return "it is not gpupool's";
	if (head->byte_order != GP_FILE_ORDER ||
	    head->version != GP_FILE_VERSION)
		return "it is of another version of gpupool";
	if (head->crc != head_crc(head))
		return "its header is damaged";
	if (head->file_bytes != size)
		return "it is not as long as it should be";
	if (head->names_at < GP_FILE_HEAD_BYTES ||
	    (uint64_t)head->names_at + head->names_bytes > head->rows_at ||
	    rows_end > head->ring_at || head->ring_at > size)
		return "its header makes no sense";
	return NULL;
}

int gp_file_read_head(int fd, struct gp_file_head *head, const char **why)
{
	static const char none[sizeof(head->magic)];
	struct stat info;
	bool looked = !fstat(fd, &info);

	/* Its room comes first, the magic last. */
	if (looked && !info.st_size) {
		*why = "it is empty";
		return -ENODATA;
	}
	if (!looked ||
	    pread(fd, head, sizeof(*head), 0) != (ssize_t)sizeof(*head)) {
		*why = "it is too short";
		return -EINVAL;
	}
	if (!memcmp(head->magic, none, sizeof(none))) {
		*why = "it was never finished";
		return -ENODATA;
	}
	*why = fault(head, (uint64_t)info.st_size);
	if (*why)
		return -EINVAL;
	head->exe[sizeof(head->exe) - 1] = '\0';
	head->conf[sizeof(head->conf) - 1] = '\0';
	return 0;
}

int gp_process_file_owner(int dir, const char *name, struct gp_process_id *id,
			  const char **why)
{
	struct gp_file_head head;
	int fd = gp_file_open(dir, name, why);
	int rc;

	if (fd < 0)
		return fd;
	rc = gp_file_read_head(fd, &head, why);
	close(fd);
	if (rc)
		return rc;
	memset(id, 0, sizeof(*id));
	id->pid = head.pid;
	id->uid = head.uid;
	id->start = head.start;
	id->pid_ns = head.pid_ns;
	memcpy(id->boot_id, head.boot_id, sizeof(id->boot_id));
	id->boot_id[sizeof(id->boot_id) - 1] = '\0';
	return 0;
}

bool gp_file_is_elsewhere(int dir, const char *name,
			  const struct gp_process_id *self)
{
	struct gp_file_head head;
	struct gp_process_id id;
	const char *why;
	int fd = gp_file_open(dir, name, &why);
	ssize_t n;

	if (fd < 0)
		return false;
	n = pread(fd, &head, sizeof(head), 0);
	close(fd);
	/* Most are of here, and need no check of the rest. */
	return n == (ssize_t)sizeof(head) && head.pid_ns != self->pid_ns &&
	       !gp_process_file_owner(dir, name, &id, &why) &&
	       gp_process_life(&id, self) == GP_ELSEWHERE;
}

bool gp_file_alive(const struct gp_file_head *head,
		   const struct gp_process_id *self)
{
	struct gp_process_id id = {
		.pid = head->pid,
		.uid = head->uid,
		.start = head->start,
		.pid_ns = head->pid_ns,
	};

	memcpy(id.boot_id, head->boot_id, sizeof(id.boot_id));
	return head->state == GP_FILE_RUNS &&
	       gp_process_life(&id, self) == GP_ALIVE;
}
