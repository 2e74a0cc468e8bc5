/* See green.h. */
#include "shim/green.h"

#include <pthread.h>
#include <stdlib.h>

#include "shim/special.h"

/* Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gp_green *greens; /* guarded by lock */
static int num_greens, room;    /* the first atomic; written under lock */

static void set_count(int n)
{
	__atomic_store_n(&num_greens, n, __ATOMIC_RELEASE);
}

/* Under the lock. */
static bool have_room(void)
{
	int more = room ? 2 * room : 16;
	struct gp_green *grown;

	if (num_greens < room)
		return true;
	grown = realloc(greens, (size_t)more * sizeof(*greens));
	if (!grown)
		return false;
	greens = grown;
	room = more;
	return true;
}

void gp_green_add(const struct gp_green *green)
{
	bool added;

	pthread_mutex_lock(&lock);
	added = have_room();
	if (added) {
		greens[num_greens] = *green;
		set_count(num_greens + 1);
	}
	pthread_mutex_unlock(&lock);
	if (!added)
		gp_green_unknown();
}

void gp_green_unknown(void)
{
	gp_special_set(GP_SPECIAL_UNKNOWN, true);
}

bool gp_green_take(const void *green, struct gp_green *was)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < num_greens && !found; i++) {
		if (greens[i].green != green)
			continue;
		*was = greens[i];
		greens[i] = greens[num_greens - 1];
		set_count(num_greens - 1);
		found = true;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

CUdevice gp_green_device(CUcontext context)
{
	CUdevice device = -1;

	if (!__atomic_load_n(&num_greens, __ATOMIC_ACQUIRE))
		return -1;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < num_greens && device < 0; i++)
		if (greens[i].context == context)
			device = greens[i].device;
	pthread_mutex_unlock(&lock);
	return device;
}
