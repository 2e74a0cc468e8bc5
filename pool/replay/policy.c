/*
 * The list of policies.
 */
#include "pool/replay/policy.h"

#include <string.h>

const struct gp_policy *const gp_policies[] = {
	&gp_policy_pool,  &gp_policy_native, &gp_policy_expandable,
	&gp_policy_chunk, &gp_policy_buddy,  NULL,
};

const struct gp_policy *gp_policy_find(const char *name)
{
	const struct gp_policy *const *p;

	for (p = gp_policies; *p; p++) {
		if (!strcmp((*p)->name, name))
			return *p;
	}
	return NULL;
}
