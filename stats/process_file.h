/*
 * The file that a process which uses a GPU has in the runtime directory.
 *
 * It is mapped and shared: what is written into it stays, whatever ends the
 * process, and others can read it while it runs. scripts/gpupool_file.py reads
 * the same format. All numbers are in the machine's byte order.
 *
 *   header    who the process is, where the rest lies     (struct gp_file_head)
 *   names     what the words of the rows are, as text
 *   rows      the ledger: figures of now, by device              (ledger.h)
 *   ring      the last events, in chunks                         (ring.h)
 *
 * Nothing here is ever locked. What may be half written when the process ends
 * carries a checksum.
 */
#ifndef GP_STATS_PROCESS_FILE_H
#define GP_STATS_PROCESS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/process_id.h"
#include "stats/runtime_dir.h"

#define GP_FILE_MAGIC      "gpupool"
#define GP_FILE_VERSION    1u
#define GP_FILE_ORDER      0x01020304u
#define GP_FILE_HEAD_BYTES 4096u

/* Names, rows, and the ring's chunks start at multiples of this. */
#define GP_FILE_PAGE       4096u

struct gp_file_head {
	char magic[8];
	uint32_t version;
	uint32_t byte_order;
	uint32_t crc; /* of this struct, with crc 0, up to `state` */
	uint32_t pid;
	uint32_t uid;
	uint32_t image;
	uint64_t start; /* as in process_id.h */
	uint64_t pid_ns;
	uint64_t file_bytes;
	uint32_t names_at, names_bytes;
	uint32_t rows_at, row_bytes, num_rows;
	uint32_t event_bytes;
	uint32_t chunk_bytes, num_chunks;
	uint64_t ring_at;
	/* The same moment on three clocks: since 1970, since boot, and that of
	 * the events. */
	uint64_t unix_ns, mono_ns, ticks;
	uint64_t ticks_per_s; /* 0: follows from a later moment */
	char boot_id[40];
	char exe[512];
	char conf[2048]; /* settings that are not the default's */

	/* From here on: written while the process runs. */
	uint32_t state __attribute__((aligned(64))); /* GP_FILE_RUNS, ... */
	uint32_t bell;         /* a futex: something to look at (bell.h) */
	uint64_t beat_mono_ns; /* the process's own thread was here */
	uint64_t end_unix_ns;
	/* A later moment on two clocks; a reader takes it if `moment_check` is
	 * their sum. */
	uint64_t moment_mono_ns, moment_ticks, moment_check;
	/* Chunks of the ring that were ever begun. Written by all threads. */
	uint64_t taken __attribute__((aligned(64)));
};
_Static_assert(sizeof(struct gp_file_head) <= GP_FILE_HEAD_BYTES,
	       "the header is one page");

enum { GP_FILE_RUNS = 1, GP_FILE_ENDED = 2 };

/* This process's file; NULL if there is none. Set once, constant then. */
extern struct gp_file_head *gp_file;

struct gp_file_options {
	const char *xdg;   /* XDG_RUNTIME_DIR as the program got it, or NULL */
	const char *names; /* what the rows' words are */
	uint32_t row_bytes, num_rows;
	uint64_t ring_bytes; /* 0: no events */
	const char *conf;
	uint64_t keep_files, keep_bytes; /* of processes that have ended */
};

/* Makes this process's file, and sweeps the directory. A file that cannot be
 * had costs one line; without room for the ring there is none. Once. */
void gp_file_start(const struct gp_file_options *options);

/* The process's own thread is alive. That thread. */
void gp_file_beat(void);

/* The process ends as it should. Any thread; preserves errno. */
void gp_file_end(void);

/* After fork, in the child: the file is the parent's. */
void gp_file_forget(void);

/* Path of the runtime directory and the name of our file in it, "" if there is
 * none. */
const char *gp_file_dir(void);
const char *gp_file_own_name(void);

static inline void *gp_file_at(uint64_t offset)
{
	return (char *)gp_file + offset;
}

/* ---- other processes' files ----------------------------------------------------
 *
 * They are read, never mapped: one that is cut short meanwhile must not be a
 * SIGBUS. Any thread. */

/* Opens `name` in the directory if it is a file of ours, for reading and
 * writing. A descriptor, or -errno with a string constant in *why. */
int gp_file_open(int dir, const char *name, const char **why);

/* Reads and checks the header. 0, -EINVAL with *why, or, with it too, -ENODATA:
 * it is not finished; whoever made it still does, or was killed over it. */
int gp_file_read_head(int fd, struct gp_file_head *head, const char **why);

/* Whose file is it? 0 or -errno with *why. */
int gp_process_file_owner(int dir, const char *name, struct gp_process_id *id,
			  const char **why);

/* Was it written in another pid namespace of this machine, so that nobody here
 * can tell whether its process runs? False if it cannot be read. */
bool gp_file_is_elsewhere(int dir, const char *name,
			  const struct gp_process_id *self);

/* Of more data: `crc` of what came before, else 0. */
uint32_t gp_crc32(uint32_t crc, const void *data, size_t size);

/* The events' clock. */
static inline uint64_t gp_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
#error "no clock for this machine"
#endif
}

/* Does the process that wrote this head still run, seen from `self`? */
bool gp_file_alive(const struct gp_file_head *head,
		   const struct gp_process_id *self);

#endif
