/*
 * An allocator as the replay sees it: how requests become driver calls.
 *
 * Every policy asks for its memory through the same driver seam, so that what
 * it reserves and what its calls cost are counted by the driver alone, the
 * same way for all. Not thread-safe: a trace is one sequence.
 */
#ifndef GP_REPLAY_POLICY_H
#define GP_REPLAY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"
#include "pool/driver.h"

/* Where an allocation went. */
struct gp_placement {
	uint64_t va;
	void *block; /* the policy's own note; not owned */
};

struct gp_policy {
	const char *name;
	const char *help; /* one line */

	/* 0 or -errno. conf and driver are copied; driver->dev must outlive
	 * the state. */
	int (*create)(const struct gp_driver *driver,
		      const struct gp_conf *conf, void **state);
	/* Gives everything back. The caller has freed what it allocated. */
	void (*destroy)(void *state);

	/* 0; -ENOMEM: refused, everything as it was; or another -errno. */
	int (*alloc)(void *state, uint64_t bytes, uint32_t stream,
		     struct gp_placement *placement);
	/* idle: no work of the program is in flight on any stream. */
	int (*free)(void *state, const struct gp_placement *placement,
		    bool idle);

	/* Housekeeping as time passes; NULL: there is none. */
	void (*tick)(void *state);
	/* 0, or -EINVAL with a sentence: the books do not balance. NULL: none
	 * kept. */
	int (*check)(void *state, char *why, size_t why_size);
};

extern const struct gp_policy gp_policy_pool;
extern const struct gp_policy gp_policy_native;
extern const struct gp_policy gp_policy_expandable;
extern const struct gp_policy gp_policy_chunk;
extern const struct gp_policy gp_policy_buddy;

/* All of them, the pool first; NULL at the end. */
extern const struct gp_policy *const gp_policies[];

/* NULL: no such policy. */
const struct gp_policy *gp_policy_find(const char *name);

#endif
