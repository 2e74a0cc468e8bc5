/*
 * Why a request was refused: what is known, what follows from it, and how that
 * is said. Plain data and functions of it: any thread. Sizes are bytes.
 */
#ifndef GP_STATS_OOM_H
#define GP_STATS_OOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/limit_stats.h"

struct gp_report;

#define GP_OOM_LISTED 16

/* Another process on the device. */
struct gp_oom_other {
	uint32_t pid;
	char name[48];   /* "": not known */
	uint64_t bytes;  /* GP_UNKNOWN: not told */
	uint64_t cached; /* of that, if it runs gpupool */
};

/* The request, and what only the moment of its refusal can tell. */
struct gp_oom {
	uint64_t bytes;
	int device;
	char call[48];        /* "cuMemAlloc_v2" */
	bool by_limit;        /* the limit refused, not the card */
	uint64_t total, free; /* of the device, or GP_UNKNOWN */
	uint64_t own;         /* all of this process there, or GP_UNKNOWN */
	size_t num_others, more_others; /* listed, and beyond the list */
	struct gp_oom_other others[GP_OOM_LISTED];
	int roomy_device;    /* another one with room for it; -1: none */
	uint64_t roomy_free; /* bytes free there */
};

/* X(name in the JSON, enumerator) */
#define GP_OOM_CAUSES(X)                     \
	X("bad_limit", BAD_LIMIT)            \
	X("larger_than_device", OVER_DEVICE) \
	X("larger_than_limit", OVER_LIMIT)   \
	X("limit", LIMIT)                    \
	X("fragmented", FRAGMENTED)          \
	X("other_processes", OTHERS)         \
	X("outside_the_pool", OUTSIDE)       \
	X("held_live", LIVE)                 \
	X("driver_refused", DRIVER)          \
	X("unknown", UNKNOWN)

enum gp_oom_cause {
#define X(name, cause) GP_OOM_##cause,
	GP_OOM_CAUSES(X)
#undef X
};

/* The device where memory ran out, its pools together. */
struct gp_oom_view {
	enum gp_oom_cause cause;
	const char *name; /* of the device, "": not known */
	uint64_t total, free;
	uint64_t reserved, allocated, requested, cached, movable;
	uint64_t largest, pieces; /* of what is cached */
	uint64_t outside; /* of this process, neither pool nor context */
	uint64_t context;
	uint64_t held;     /* all that is known of this process */
	uint64_t others;   /* of other processes, or GP_UNKNOWN */
	bool others_mixed; /* its own contexts may be among that */
	size_t pools;
	const char *no_remap; /* why free memory is not joined; NULL: it is */
	bool could_remap;     /* a setting keeps it from that */
	const struct gp_limit_stats *limit; /* NULL: not known */
	uint64_t cap;                       /* GP_NO_LIMIT: none */
};

/* Looks at the report's figures, and judges. */
void gp_oom_judge(const struct gp_report *report, struct gp_oom_view *view);

const char *gp_oom_cause_name(enum gp_oom_cause cause);

/* The answer, in a paragraph without line feeds. */
void gp_oom_answer(const struct gp_report *report,
		   const struct gp_oom_view *view, char *text, size_t size);

/* The one setting that would have helped, as it would be written; "": there is
 * none. */
void gp_oom_setting(const struct gp_report *report,
		    const struct gp_oom_view *view, char *text, size_t size);

#endif
