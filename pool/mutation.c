/* Clauses by name, in builds that can switch them off; see mutation.h. */
#include "pool/mutation.h"

#ifdef GP_MUTATIONS
#include <stddef.h>
#include <string.h>

enum gp_rule gp_mutation;
void (*gp_mutation_step)(void);

static const struct {
	const char *name, *what;
} rules[] = {
	{"NONE", "nothing is switched off"},
#define GP_RULE(name, invariant, what) {#name, what},
#include "pool/mutations.def"
};

const char *gp_rule_name(enum gp_rule rule)
{
	return rule < GP_NUM_RULES ? rules[rule].name : NULL;
}

const char *gp_rule_what(enum gp_rule rule)
{
	return rule < GP_NUM_RULES ? rules[rule].what : NULL;
}

enum gp_rule gp_rule_find(const char *name)
{
	for (int i = GP_RULE_NONE + 1; i < GP_NUM_RULES; i++)
		if (!strcmp(rules[i].name, name))
			return (enum gp_rule)i;
	return GP_RULE_NONE;
}
#else
/* ISO C wants a translation unit to declare something. */
extern int gp_mutations_are_not_built_in;
#endif
