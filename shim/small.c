/* Which contexts have small allocations; see small.h. */
#include "shim/small.h"

#include <pthread.h>

#define MAX_CONTEXTS 256

/* Rank: above that of the contexts. Not held across a driver call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	CUcontext context; /* guarded by lock, as is the device; NULL: free */
	CUdevice device;
	struct gp_limit_small small;
} contexts[MAX_CONTEXTS];
static int num_contexts; /* that were ever in use; guarded by lock */

/* Under the lock. MAX_CONTEXTS: none. */
static int place(CUcontext context, CUdevice device)
{
	int free_at = MAX_CONTEXTS;

	for (int i = 0; i < num_contexts; i++) {
		if (contexts[i].context == context &&
		    contexts[i].device == device)
			return i;
		if (!contexts[i].context && free_at == MAX_CONTEXTS)
			free_at = i;
	}
	if (free_at == MAX_CONTEXTS && num_contexts < MAX_CONTEXTS)
		free_at = num_contexts++;
	return free_at;
}

struct gp_limit_small *gp_small_of(CUcontext context, CUdevice device)
{
	int i;

	pthread_mutex_lock(&lock);
	i = place(context, device);
	if (i < MAX_CONTEXTS) {
		contexts[i].context = context;
		contexts[i].device = device;
	}
	pthread_mutex_unlock(&lock);
	return i < MAX_CONTEXTS ? &contexts[i].small : NULL;
}

void gp_small_forget(bool (*gone)(CUcontext context, CUdevice device,
				  const void *arg),
		     const void *arg)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < num_contexts; i++)
		if (contexts[i].context &&
		    gone(contexts[i].context, contexts[i].device, arg))
			contexts[i].context = NULL;
	pthread_mutex_unlock(&lock);
}
