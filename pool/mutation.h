/*
 * Switching off one safety clause; see mutations.def.
 */
#ifndef GP_POOL_MUTATION_H
#define GP_POOL_MUTATION_H

enum gp_rule {
	GP_RULE_NONE,
#define GP_RULE(name, invariant, what) GP_RULE_##name,
#include "pool/mutations.def"
	GP_NUM_RULES
};

#ifdef GP_MUTATIONS
#include <stdbool.h>
#include <stddef.h>

/* Also for a test that preloads the library. */
#define GP_MUTATION_API __attribute__((visibility("default")))

/* The clause that is off. Set before other threads run. */
extern GP_MUTATION_API enum gp_rule gp_mutation;

/* Called where a clause takes effect: a test's chance to let another thread
 * run in between. May be NULL. Set before other threads run. */
extern GP_MUTATION_API void (*gp_mutation_step)(void);

/* The clause's name; NULL past the last. */
GP_MUTATION_API const char *gp_rule_name(enum gp_rule rule);
GP_MUTATION_API const char *gp_rule_what(enum gp_rule rule);

/* The clause of that name, or GP_RULE_NONE. */
GP_MUTATION_API enum gp_rule gp_rule_find(const char *name);

static inline bool gp_holds(enum gp_rule rule)
{
	if (gp_mutation_step)
		gp_mutation_step();
	return gp_mutation != rule;
}

#define GP_HOLDS(rule) gp_holds(GP_RULE_##rule)
#else
#define GP_HOLDS(rule) 1
#endif

#endif
