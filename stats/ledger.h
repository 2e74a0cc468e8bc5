/*
 * The ledger: the figures of this moment in the process's file, for others to
 * read. One row is the process's, one each a device's.
 *
 * A row is written by one thread at a time, in turn into one of two copies,
 * each with a sequence number and a checksum: a reader, and whoever comes after
 * a kill, takes the newer one that is whole. What the words of a row mean is
 * said by the file itself, in its names, so that a reader of another version
 * finds what it knows.
 */
#ifndef GP_STATS_LEDGER_H
#define GP_STATS_LEDGER_H

#include <stdint.h>

#include "stats/kinds.h"
#include "stats/pool_stats.h"
#include "stats/process_file.h"

#define GP_LEDGER_WORDS   240u
#define GP_LEDGER_DEVICES 16u
#define GP_LEDGER_ROWS    (1 + GP_LEDGER_DEVICES) /* row 0: the process */

/* X(name, help); a word each. Bytes that nobody knows are UINT64_MAX. */
#define GP_LEDGER_PROCESS(X)                                           \
	X(updated_unix_ns, "when the row was written")                 \
	X(devices, "devices that have a row")                          \
	X(neighbours_asked, "other processes that were asked to trim") \
	X(neighbours_gave_bytes, "what they gave back")                \
	X(asked_by_neighbours, "how often others asked this one")      \
	X(gave_neighbours_bytes, "what it gave back for them")

#define GP_LEDGER_DEVICE(X)                                        \
	X(updated_unix_ns, "when the row was written")             \
	X(ordinal, "the device's number in this process")          \
	X(contexts, "contexts with a pool")                        \
	X(total_bytes, "the device's memory")                      \
	X(free_bytes, "free on the device, when last asked")       \
	X(limit_bytes, "the cap; UINT64_MAX: none")                \
	X(context_bytes, "what the contexts themselves take")      \
	X(outside_bytes, "what the process holds beside the pool") \
	X(reserve_floor_bytes, "kept when another process asks")

struct gp_ledger_process {
#define X(name, help) uint64_t name;
	GP_LEDGER_PROCESS(X)
#undef X
	struct gp_kind_stats kinds[GP_KIND_COUNT];
};

struct gp_ledger_device {
#define X(name, help) uint64_t name;
	GP_LEDGER_DEVICE(X)
#undef X
	struct gp_pool_stats stats; /* sums over the contexts */
	uint8_t uuid[16];
	char name[96];
};

struct gp_ledger_copy {
	uint64_t sequence; /* 0: never written */
	uint32_t crc;      /* of the copy, with crc 0 */
	uint32_t unused;
	uint8_t uuid[16];
	char name[96];
	uint64_t words[GP_LEDGER_WORDS];
};

struct gp_ledger_row {
	struct gp_ledger_copy copies[2];
};

/* What the words are: "process:NAME,NAME,...\ndevice:NAME,...\n". */
extern const char gp_ledger_names[];

/* Writes a row of this process's file; nothing without one. One thread at a
 * time. */
void gp_ledger_put_process(const struct gp_ledger_process *process);
/* `row`: 0 to GP_LEDGER_DEVICES - 1. */
void gp_ledger_put_device(unsigned row, const struct gp_ledger_device *device);

/* ---- another process's ledger; any thread ------------------------------------- */

/* Where to find a word in its rows: by the names in its file. -1: nowhere.
 * `kind` is "process" or "device". */
int gp_ledger_word(const char *names, const char *kind, const char *name);

/* The newer whole copy of a row of the file behind fd, its header being head.
 * 0, or -ENOENT. */
int gp_ledger_read(int fd, const struct gp_file_head *head, unsigned row,
		   struct gp_ledger_copy *copy);

#endif
