/*
 * Configuration: the environment -> one immutable struct.
 *
 * conf/options.def is the one table: parser, defaults, printing and the README
 * table come from it. Grammar: key:value,key:value; lists in []; white space
 * is dropped; a path with blanks or commas stands in double quotes, where \"
 * and \\ mean " and \. "@file" in the place of a setting stands for what is in
 * that file: the same, a newline as good as a comma, # starts a comment. A bad
 * value costs one line (key, value, what is accepted, the nearest known key);
 * the other settings hold; the host is never stopped. A limit is the
 * exception: see limit_is_bad.
 */
#ifndef GP_CONF_H
#define GP_CONF_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gp_backend {
	GP_BACKEND_NATIVE,      /* serve device memory from the pool */
	GP_BACKEND_PASSTHROUGH, /* forward everything, count and report only */
	GP_BACKEND_CUDA_MALLOC_ASYNC, /* serve it from a pool of the driver's */
};

enum gp_conf_cache { GP_CONF_KEEP, GP_CONF_DECAY, GP_CONF_NONE };

enum gp_conf_reuse { GP_CONF_REUSE_AUTO, GP_CONF_REUSE_SYNC };

enum gp_conf_free_order {
	GP_CONF_ORDER_AUTO,
	GP_CONF_ORDER_FULL,
	GP_CONF_ORDER_REUSE,
};

enum gp_conf_barrier {
	GP_CONF_BARRIER_AUTO,
	GP_CONF_BARRIER_ALWAYS,
	GP_CONF_BARRIER_NEVER,
};

/* What a limit that cannot be read means. */
enum gp_conf_bad_limit {
	GP_CONF_BAD_LIMIT_REFUSE,   /* no device memory at all */
	GP_CONF_BAD_LIMIT_CONTINUE, /* as if it had not been given */
};

/* Whose call stacks are kept. */
enum gp_conf_stacks {
	GP_CONF_STACKS_OFF,
	GP_CONF_STACKS_OOM,    /* of a refused request */
	GP_CONF_STACKS_SAMPLE, /* and of some allocations, chosen by bytes */
	GP_CONF_STACKS_ALL,    /* and of every allocation */
};

/* What reports are written as. */
#define GP_CONF_FORMAT_TEXT 1u
#define GP_CONF_FORMAT_JSON 2u

#define GP_CONF_NAME_SIZE   128 /* pattern of a report's name, with a NUL */
#define GP_CONF_DIVISIONS   16
#define GP_CONF_ONLY_SIZE   512 /* patterns of program names, with a NUL */
#define GP_CONF_DEVICES     64  /* devices above share the last one's slot */

struct gp_conf {
	bool enabled;                 /* False: as if not preloaded */
	bool quiet;                   /* no summary line at exit */
	char only[GP_CONF_ONLY_SIZE]; /* gp_conf_is_for() */
	enum gp_backend backend;
	char report_dir[PATH_MAX]; /* "" = where the program was started */
	char report_name[GP_CONF_NAME_SIZE]; /* a pattern: %p %e %h %r %t */
	unsigned report_format;              /* GP_CONF_FORMAT_ bits, not 0 */
	double warn_at;    /* share of what it may take; 0: off */
	int report_signal; /* signal number, 0 = none */
	bool check;        /* pool_check() after every step */

	/* the pool's; sizes in bytes */
	bool expandable_segments;
	enum gp_conf_cache cache_policy;
	uint64_t decay_ms;    /* cache_decay_ms; never 0 */
	double growth_factor; /* >= 1.0 */
	uint64_t large_segment_size;
	uint64_t max_split_size; /* UINT64_MAX: unlimited */
	uint64_t max_non_split_rounding;
	double garbage_collection_threshold; /* 0: off */
	bool zero_memory;                    /* what is handed out is zero */
	bool poison_free;                    /* what was freed is filled */
	uint64_t guard_bytes;                /* red zones around each block */
	double overlap_slack;                /* 0: off */
	enum gp_conf_reuse reuse;
	enum gp_conf_free_order free_order;
	enum gp_conf_barrier free_barrier;
	/* slot k is for requests of [2^k, 2^(k+1)) MiB; 0: off */
	uint32_t roundup_power2_divisions[GP_CONF_DIVISIONS];

	/* what is kept in the runtime directory */
	bool ring_events;
	uint64_t ring_size;         /* bytes */
	uint64_t keep_reports;      /* files of processes that have ended */
	uint64_t keep_reports_size; /* bytes of them */

	enum gp_conf_stacks stacks;
	uint64_t sample_bytes; /* on average, from one sample to the next */

	/* other processes on the same device */
	uint64_t neighbour_wait; /* ms; 0: nobody is asked */
	uint64_t reserve_floor;  /* bytes kept when another one asks */

	/* limits, by device ordinal as the process sees it: ask
	 * gp_conf_limit() and gp_conf_fraction() */
	uint64_t memory_limit[GP_CONF_DEVICES];
	double per_process_memory_fraction[GP_CONF_DEVICES];
	uint64_t host_limit; /* pinned host memory; UINT64_MAX: unlimited */
	bool count_context;  /* the context's own memory counts */
	bool virtualize;     /* the program is shown the limit as the card */
	enum gp_conf_bad_limit on_bad_limit;

	/* Set if a limit was given and cannot be read: give the program no
	 * device memory, and say why. Never set under on_bad_limit:continue
	 * and enabled:False. */
	bool limit_is_bad;
	char limit_message[512]; /* the first such sentence, else "" */
};

/* The limit on everything the process takes on device `ordinal`, in bytes;
 * UINT64_MAX: none was set. */
static inline uint64_t gp_conf_limit(const struct gp_conf *conf,
				     unsigned ordinal)
{
	return conf
		->memory_limit[ordinal < GP_CONF_DEVICES ? ordinal
							 : GP_CONF_DEVICES - 1];
}

/* The same as a share of the device's memory, 0 to 1; 1: none was set. If both
 * are set, the smaller holds. */
static inline double gp_conf_fraction(const struct gp_conf *conf,
				      unsigned ordinal)
{
	return conf->per_process_memory_fraction[ordinal < GP_CONF_DEVICES
							 ? ordinal
							 : GP_CONF_DEVICES - 1];
}

/* One sentence about a setting that was not taken, or taken with a remark. */
typedef void gp_conf_message(void *arg, const char *sentence);

/* Every default. Thread-safe. */
void gp_conf_defaults(struct gp_conf *conf);

/* Parse `text` (NULL or "": defaults) over the defaults. Returns the number of
 * settings that were refused (0: all well); each is told through `message`
 * (may be NULL). Reads the files that "@" names, relative ones from the working
 * directory. Does not use malloc. Thread-safe. */
int gp_conf_parse(const char *text, struct gp_conf *conf,
		  gp_conf_message *message, void *arg);

/* Whether `only` names a program of this name (no directory in it). A program
 * may go by several. Thread-safe. */
bool gp_conf_is_for(const struct gp_conf *conf, const char *name);

/* The table, for printing: number of options, and one of them. */
struct gp_conf_option {
	const char *key, *accepted, *help;
};
size_t gp_conf_count(void);
const struct gp_conf_option *gp_conf_option(size_t index);

/* The effective value of option `index`, as it would be written in
 * GPUPOOL_CONF ("True", "8GiB"). Returns buf. */
const char *gp_conf_value(const struct gp_conf *conf, size_t index, char *buf,
			  size_t size);
/* The same for people and for JSON: a path stands without quotes. */
const char *gp_conf_plain(const struct gp_conf *conf, size_t index, char *buf,
			  size_t size);
/* True if the option still has its default. */
bool gp_conf_is_default(const struct gp_conf *conf, size_t index);

#endif
