/* The ledger; see ledger.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stats/ledger.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct gp_ledger_copy) == 128 + 8 * GP_LEDGER_WORDS,
	       "no holes");

#define STAT_NAMES(name) \
	name ".current," name ".peak," name ".allocated," name ".freed,"

const char gp_ledger_names[] = "process:"
#define X(name, help) #name ","
	GP_LEDGER_PROCESS(X)
#undef X
#define X(name, help)                         \
	STAT_NAMES("outside." #name ".bytes") \
	STAT_NAMES("outside." #name ".count")
		GP_KINDS(X)
#undef X
			"\ndevice:"
#define X(name, help) #name ","
	GP_LEDGER_DEVICE(X)
#undef X
#define X(name, unit, help)             \
	STAT_NAMES(#name ".all")        \
	STAT_NAMES(#name ".small_pool") \
	STAT_NAMES(#name ".large_pool")
		GP_POOL_GAUGES(X)
#undef X
#define X(name, unit, help) STAT_NAMES(#name)
			GP_POOL_OVERSIZE(X)
#undef X
#define X(name, unit, help) #name ","
				GP_POOL_COUNTERS(X) GP_POOL_LEVELS(X)
#undef X
					"\n";

/* ---- writing ----------------------------------------------------------------------- */

struct words {
	struct gp_ledger_copy copy;
	unsigned n;
};

static void put(struct words *to, uint64_t word)
{
	if (to->n < GP_LEDGER_WORDS)
		to->copy.words[to->n++] = word;
}

static void put_stat(struct words *to, const struct gp_stat *stat)
{
	put(to, stat->current);
	put(to, stat->peak);
	put(to, stat->allocated);
	put(to, stat->freed);
}

static uint32_t copy_crc(const struct gp_ledger_copy *copy)
{
	struct gp_ledger_copy plain = *copy;

	plain.crc = 0;
	return gp_crc32(0, &plain, sizeof(plain));
}

/* Over the older copy. Whoever is killed here leaves the newer one whole. */
static void put_row(unsigned row, struct words *from)
{
	struct gp_ledger_row *rows;
	struct gp_ledger_copy *copies, *to;

	if (!gp_file || row >= gp_file->num_rows)
		return;
	rows = gp_file_at(gp_file->rows_at);
	copies = rows[row].copies;
	to = &copies[copies[0].sequence > copies[1].sequence];
	from->copy.sequence =
		(copies[0].sequence > copies[1].sequence ? copies[0].sequence
							 : copies[1].sequence) +
		1;
	from->copy.crc = copy_crc(&from->copy);
	memcpy(to, &from->copy, sizeof(*to));
}

void gp_ledger_put_process(const struct gp_ledger_process *process)
{
	struct words words = {.n = 0};

#define X(name, help) put(&words, process->name);
	GP_LEDGER_PROCESS(X)
#undef X
	for (int i = 0; i < GP_KIND_COUNT; i++) {
		put_stat(&words, &process->kinds[i].bytes);
		put_stat(&words, &process->kinds[i].count);
	}
	put_row(0, &words);
}

void gp_ledger_put_device(unsigned row, const struct gp_ledger_device *device)
{
	struct words words = {.n = 0};

	memcpy(words.copy.uuid, device->uuid, sizeof(words.copy.uuid));
	memcpy(words.copy.name, device->name, sizeof(words.copy.name));
#define X(name, help) put(&words, device->name);
	GP_LEDGER_DEVICE(X)
#undef X
#define X(name, unit, help)                            \
	put_stat(&words, &device->stats.name);         \
	put_stat(&words, &device->stats.name##_small); \
	put_stat(&words, &device->stats.name##_large);
	GP_POOL_GAUGES(X)
#undef X
#define X(name, unit, help) put_stat(&words, &device->stats.name);
	GP_POOL_OVERSIZE(X)
#undef X
#define X(name, unit, help) put(&words, device->stats.name);
	GP_POOL_COUNTERS(X)
	GP_POOL_LEVELS(X)
#undef X
	put_row(1 + row, &words);
}

/* ---- reading ------------------------------------------------------------------------ */

int gp_ledger_word(const char *names, const char *kind, const char *name)
{
	const size_t kind_len = strlen(kind), len = strlen(name);
	int word = 0;

	while (names && strncmp(names, kind, kind_len) != 0) {
		names = strchr(names, '\n');
		if (names)
			names++;
	}
	if (!names || names[kind_len] != ':')
		return -1;
	for (names += kind_len + 1; *names && *names != '\n'; word++) {
		const char *end = names + strcspn(names, ",\n");

		if ((size_t)(end - names) == len && !memcmp(names, name, len))
			return word < (int)GP_LEDGER_WORDS ? word : -1;
		names = end + (*end == ',');
	}
	return -1;
}

static bool is_whole(const struct gp_ledger_copy *copy)
{
	return copy->sequence && copy->crc == copy_crc(copy);
}

int gp_ledger_read(int fd, const struct gp_file_head *head, unsigned row,
		   struct gp_ledger_copy *copy)
{
	struct gp_ledger_row both;
	const struct gp_ledger_copy *a = &both.copies[0], *b = &both.copies[1];
	bool have_a, have_b;

	if (row >= head->num_rows || head->row_bytes != sizeof(both) ||
	    pread(fd, &both, sizeof(both),
		  (off_t)(head->rows_at + (uint64_t)row * sizeof(both))) !=
		    (ssize_t)sizeof(both))
		return -ENOENT;
	have_a = is_whole(a);
	have_b = is_whole(b);
	if (!have_a && !have_b)
		return -ENOENT;
	*copy = have_a && (!have_b || a->sequence > b->sequence) ? *a : *b;
	copy->name[sizeof(copy->name) - 1] = '\0';
	return 0;
}
