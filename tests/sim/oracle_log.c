/* What happened, for the histories of an objection; see oracle.h. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/sim/gpusim.h"
#include "tests/sim/oracle.h"

struct entry {
	enum sim_event_kind kind;
	uint64_t thread;
	unsigned strand;
	const struct sim_past *past;
	struct sim_use use;
};

/* Guarded by sim.lock. */
static struct entry *entries;
static size_t num_entries, room_entries;

uint64_t sim_oracle_log(enum sim_event_kind kind, const struct sim_past *past,
			unsigned strand, const struct sim_use *use)
{
	if (num_entries == room_entries) {
		room_entries = room_entries ? 2 * room_entries : 1024;
		entries = realloc(entries, room_entries * sizeof(*entries));
		if (!entries)
			abort();
	}
	entries[num_entries++] = (struct entry){
		.kind = kind,
		.thread = sim_thread()->serial,
		.strand = strand,
		.past = past,
		.use = use ? *use : (struct sim_use){0},
	};
	return num_entries - 1;
}

const struct sim_past *sim_oracle_work(unsigned strand, uint32_t number)
{
	for (size_t i = num_entries; i-- > 0;) {
		const struct entry *e = &entries[i];

		if (e->kind == SIM_E_WORK && e->strand == strand &&
		    e->past->number == number)
			return e->past;
	}
	return NULL;
}

/* ---- in words ---------------------------------------------------------------------- */

static const char *kind_of(const struct sim_past *past)
{
	static const char *const names[] = {
		[SIM_W_SET] = "set",           [SIM_W_COPY] = "copy",
		[SIM_W_KERNEL] = "kernel",     [SIM_W_HOST] = "host function",
		[SIM_W_CALLBACK] = "callback", [SIM_W_MARK] = "event record",
		[SIM_W_WAIT] = "wait",         [SIM_W_WRITE] = "write value",
		[SIM_W_POLL] = "wait value",   [SIM_W_FREE] = "async free",
		[SIM_W_GRAPH] = "graph",
	};

	return past->name ? past->name : names[past->kind];
}

static void say_uses(const struct sim_past *past)
{
	for (unsigned i = 0; i < past->num_uses && i < 4; i++)
		fprintf(stderr, ", %s %" PRIu64 " B at %#llx of allocation %u",
			past->uses[i].write ? "writes" : "reads",
			past->uses[i].bytes, past->uses[i].va,
			past->uses[i].tenant);
	if (past->num_uses > 4)
		fprintf(stderr, " and %u more", past->num_uses - 4);
}

static void say_past(const struct sim_past *past)
{
	fprintf(stderr, "#%" PRIu64 " thread %" PRIu64 ": %s", past->serial,
		past->thread, kind_of(past));
	if (past->number)
		fprintf(stderr, " %u.%u", past->strand, past->number);
	else
		fprintf(stderr, " in strand %u%s", past->strand,
			past->program ? "" : " (the library's)");
	say_uses(past);
}

static void say(size_t i)
{
	const struct entry *e = &entries[i];

	fprintf(stderr, "    ");
	if (e->kind == SIM_E_WORK) {
		say_past(e->past);
		fprintf(stderr, "\n");
		return;
	}
	fprintf(stderr, "#%zu thread %" PRIu64 ": ", i, e->thread);
	switch (e->kind) {
	case SIM_E_WAIT:
		fprintf(stderr, "strand %u waits for #%" PRIu64 " in %u%s",
			e->strand, e->past->serial, e->past->strand,
			e->past->program ? "" : " (the library's)");
		break;
	case SIM_E_HOST:
		fprintf(stderr, "the host knows #%" PRIu64 " complete",
			e->past->serial);
		break;
	case SIM_E_DRAIN:
		fprintf(stderr, "the host knows the context idle");
		break;
	case SIM_E_ALLOC:
		fprintf(stderr, "allocation %u: %" PRIu64 " B at %#llx",
			e->use.tenant, e->use.bytes, e->use.va);
		break;
	case SIM_E_FREE:
		if (e->use.tenant)
			fprintf(stderr, "allocation %u ends", e->use.tenant);
		else
			fprintf(stderr, "free begins");
		break;
	case SIM_E_FREED:
		fprintf(stderr, "free returns");
		break;
	case SIM_E_UNMAP:
		fprintf(stderr, "%" PRIu64 " B at %#llx unmapped", e->use.bytes,
			e->use.va);
		break;
	case SIM_E_WORK:
		break;
	}
	fprintf(stderr, "\n");
}

static bool of_tenant(const struct entry *e, const struct sim_past *past)
{
	if (e->kind != SIM_E_ALLOC && e->kind != SIM_E_FREE)
		return false;
	for (unsigned i = 0; i < past->num_uses; i++)
		if (e->use.tenant && e->use.tenant == past->uses[i].tenant)
			return true;
	return false;
}

#define LINES 14

/* What happened to its strand before it, and to its allocations at any time. */
static void say_history(const struct sim_past *past)
{
	size_t from = past->serial + 1;
	unsigned n = 0;

	while (from && n < LINES)
		if (entries[--from].strand == past->strand ||
		    entries[from].kind == SIM_E_DRAIN)
			n++;
	fprintf(stderr, "  stream %" PRIu64 " is strand %u:\n",
		sim_oracle_strand(past->strand)->stream, past->strand);
	for (size_t i = 0; i < num_entries; i++)
		if (of_tenant(&entries[i], past) ||
		    (i >= from && i <= past->serial &&
		     (entries[i].strand == past->strand ||
		      entries[i].kind == SIM_E_DRAIN)))
			say(i);
}

/* The latest frees, which are what orders things. */
static void say_frees(void)
{
	size_t from = num_entries;
	unsigned n = 0;

	while (from && n < LINES)
		if (entries[--from].kind == SIM_E_FREE ||
		    entries[from].kind == SIM_E_FREED)
			n++;
	for (size_t i = from; i < num_entries; i++)
		if (entries[i].kind == SIM_E_FREE ||
		    entries[i].kind == SIM_E_FREED)
			say(i);
}

static void say_all(void)
{
	size_t n = sim.settings.history;

	fprintf(stderr, "  everything:\n");
	for (size_t i = num_entries > n ? num_entries - n : 0; i < num_entries;
	     i++)
		say(i);
}

__attribute__((visibility("default"))) void gpusim_history(void)
{
	sim_lock();
	if (sim.settings.history)
		say_all();
	sim_unlock();
}

void sim_oracle_object(const struct sim_past *older,
		       const struct sim_past *newer, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "gpusim: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	if (older) {
		fprintf(stderr, "  ");
		say_past(older);
		fprintf(stderr, "\n");
	}
	if (newer) {
		fprintf(stderr, "  ");
		say_past(newer);
		fprintf(stderr, "\n");
	}
	if (older)
		say_history(older);
	if (newer)
		say_history(newer);
	fprintf(stderr, "  the latest frees:\n");
	say_frees();
	if (sim.settings.history)
		say_all();
	fflush(stderr);
	/* At once: no destructor, and nobody's stand-in for exit. */
	syscall(SYS_exit_group, GPUSIM_OBJECTS);
	__builtin_unreachable();
}
