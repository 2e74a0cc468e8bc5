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
/* The clause that is off. Set before other threads run. */
extern enum gp_rule gp_mutation;

/* The clause's name; NULL past the last. */
const char *gp_rule_name(enum gp_rule rule);
const char *gp_rule_what(enum gp_rule rule);

/* The clause of that name, or GP_RULE_NONE. */
enum gp_rule gp_rule_find(const char *name);

#define GP_HOLDS(rule) (gp_mutation != GP_RULE_##rule)
#else
#define GP_HOLDS(rule) 1
#endif

#endif
