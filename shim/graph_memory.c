/*
 * The ledger's side of the memory of graphs; see graphs.h.
 *
 * A graph surely has its memory (it "leans" on that) when it was launched into
 * the same stream before and nothing has happened to the device since that could
 * have taken the memory from it: a trim, or a launch that leaves memory allocated
 * where graphs of its stream have theirs. Such events end an era of the device.
 * While one goes on nobody leans, and it begins when nobody does.
 */
#include <pthread.h>
#include <time.h>

#include "shim/devices.h"
#include "shim/graphs.h"
#include "shim/room.h"
#include "shim/state.h"
#include "shim/take.h"

#define NUM_DEVICES GP_CONF_DEVICES
/* What is given back may be taken by another thread before us; so often it is
 * tried. */
#define MAX_TRIES   64
/* The largest step in which the driver is believed to take memory. */
#define CHUNK_MAX   (64ull << 20)
#define WAIT_S      10

/* Guarded by lock. */
static struct device {
	uint64_t charged; /* on the ledger for graphs */
	uint64_t growing; /* reserved beside that by launches under way */
	uint64_t as_of;   /* the question whose answer `charged` follows */
	uint64_t chunk;   /* bytes; 0: pieces */
	uint64_t era;
	unsigned launches; /* under way */
	unsigned leaning;  /* of those */
	unsigned ending;   /* events under way that end the era */
} devices[NUM_DEVICES];

/* Rank: above the ledgers. Not held across a driver call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t upright = PTHREAD_COND_INITIALIZER; /* nobody leans */
static uint64_t questions;                                /* atomic */
static __thread bool leans; /* this thread's launch does */

bool gp_graphs_allocate;

static uint64_t up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static struct device *device_at(CUdevice device)
{
	return &devices[device >= 0 && device < NUM_DEVICES ? device
							    : NUM_DEVICES - 1];
}

bool gp_graph_memory(CUdevice device, uint64_t bytes, const char *call)
{
	struct gp_charge charge = {GP_PART_graph, up(bytes, GP_LIMIT_PIECE),
				   NULL};

	if (gp_room_reserve(device, &charge, NULL)) {
		gp_take_refused(device, bytes, call);
		return false;
	}
	/* It is taken when the graph is launched. */
	gp_limit_cancel(gp_device_limit(device), &charge);
	__atomic_store_n(&gp_graphs_allocate, true, __ATOMIC_RELAXED);
	return true;
}

/* ---- what the driver has ----------------------------------------------------------- */

/* An answer, and when it was asked for: what was launched before that is in it. */
struct answer {
	bool told;
	uint64_t number, reserved;
};

static struct answer ask(CUdevice device)
{
	struct answer a = {
		.number = __atomic_add_fetch(&questions, 1, __ATOMIC_ACQ_REL)};
	cuuint64_t reserved = 0;

	a.told = gp_real()->cuDeviceGetGraphMemAttribute(
			 device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
			 &reserved) == CUDA_SUCCESS;
	a.reserved = reserved;
	return a;
}

/* Under the lock: what the device is to be charged for when `taken` of what it
 * grows by is known to be in the answer. The rest of its growth is that of other
 * launches, which have it on the ledger; beyond all that it is unexpected. */
static uint64_t to_charge(const struct device *d, uint64_t taken,
			  const struct answer *a)
{
	uint64_t others = d->growing - taken, mine = d->charged + taken;

	if (a->reserved > mine + others)
		return a->reserved - others;
	return a->reserved < mine ? a->reserved : mine;
}

void gp_graph_refresh(CUdevice device)
{
	struct device *d = device_at(device);
	struct answer a = ask(device);
	uint64_t now;

	pthread_mutex_lock(&lock);
	if (a.told && a.number > d->as_of) { /* else another's is newer */
		now = to_charge(d, 0, &a);
		gp_limit_adjust(gp_device_limit(device), GP_PART_graph,
				d->charged, now);
		d->charged = now;
		d->as_of = a.number;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- eras ---------------------------------------------------------------------------- */

/* Under the lock. Waits for launches that lean, which are in the driver: not for
 * ever, should that be what hangs. */
static void end_era(struct device *d)
{
	struct timespec until;
	int rc = 0;

	d->ending++;
	d->era++;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	while (d->leaning && !rc)
		rc = pthread_cond_timedwait(&upright, &lock, &until);
}

static void begin_era(struct device *d)
{
	pthread_mutex_lock(&lock);
	d->ending--;
	pthread_mutex_unlock(&lock);
}

bool gp_graph_trim_begin(CUdevice device)
{
	if (!gp_running() || !gp_graphs_may_allocate())
		return false;
	pthread_mutex_lock(&lock);
	end_era(device_at(device));
	pthread_mutex_unlock(&lock);
	return true;
}

void gp_graph_trim_end(CUdevice device)
{
	gp_graph_refresh(device);
	begin_era(device_at(device));
}

uint64_t gp_graph_trim(CUdevice device)
{
	struct device *d = device_at(device);
	uint64_t before, after;

	/* Who leans would wait for himself. */
	if (!gp_graphs_may_allocate() || leans)
		return 0;
	pthread_mutex_lock(&lock);
	before = d->charged;
	if (before)
		end_era(d);
	pthread_mutex_unlock(&lock);
	if (!before)
		return 0;
	gp_real()->cuDeviceGraphMemTrim(device);
	gp_graph_refresh(device);
	pthread_mutex_lock(&lock);
	after = d->charged;
	d->ending--;
	pthread_mutex_unlock(&lock);
	return before > after ? before - after : 0;
}

void gp_graph_context_gone(void)
{
	uint64_t charged;

	if (!gp_graphs_may_allocate())
		return;
	for (CUdevice i = 0; i < NUM_DEVICES; i++) {
		pthread_mutex_lock(&lock);
		devices[i].era++;
		charged = devices[i].charged;
		pthread_mutex_unlock(&lock);
		if (charged)
			gp_graph_refresh(i);
	}
}

/* ---- launches ------------------------------------------------------------------------------ */

/* Streams that have one handle for several are told apart, or are not known. */
static uintptr_t key_of(CUstream stream)
{
	CUcontext context = NULL;

	if (stream == CU_STREAM_PER_THREAD)
		return 0;
	if (stream == CU_STREAM_LEGACY)
		gp_real()->cuCtxGetCurrent(&context);
	return (uintptr_t)(context ? (CUstream)context : stream);
}

/* Where it is not known what it needs, what it takes is only counted. */
static void set_up(struct gp_graph_launch *launch,
		   const struct gp_graph_need *need)
{
	CUdevice current;

	launch->leaves = need->leaves;
	launch->num = need->num;
	for (unsigned i = 0; i < need->num; i++)
		launch->on[i] = (struct gp_graph_share){
			.device = need->on[i].device,
			.bytes = need->on[i].bytes,
		};
	if (!need->told &&
	    gp_real()->cuCtxGetDevice(&current) == CUDA_SUCCESS) {
		launch->on[0] = (struct gp_graph_share){.device = current};
		launch->num = 1;
	}
}

/* What another thread's launch may leave is waited for, what is cached and idle
 * goes, and then what is cached. */
static bool reserve(CUdevice device, const struct gp_charge *charge)
{
	struct gp_limit *limit = gp_device_limit(device);
	uint64_t outcomes;

	for (int i = 0; i < MAX_TRIES; i++) {
		if (!gp_limit_reserve(limit, charge, &outcomes))
			return true;
		if (!gp_limit_allows(limit, charge->bytes) ||
		    (!gp_limit_wait(limit, outcomes) &&
		     !gp_room_make_idle(device, charge->bytes)))
			break;
	}
	return !gp_room_reserve(device, charge, NULL);
}

/* Whoever leans has no other device to wait for: nobody waits for him long. */
static uint64_t enter(struct gp_graph_launch *launch,
		      struct gp_graph_share *share, uint64_t era)
{
	struct device *d = device_at(share->device);
	uint64_t bytes = share->bytes;

	pthread_mutex_lock(&lock);
	share->era = d->ending ? 0 : d->era + 1;
	share->leans = share->era && era == share->era && launch->num == 1;
	leans = share->leans;
	d->leaning += share->leans;
	if (launch->leaves)
		end_era(d);
	share->alone = !d->launches++;
	share->before = d->charged;
	if (d->chunk)
		bytes = up(bytes, d->chunk);
	pthread_mutex_unlock(&lock);
	return share->leans ? 0 : bytes;
}

static void leave(struct gp_graph_launch *launch, struct gp_graph_share *share)
{
	struct device *d = device_at(share->device);

	d->launches--;
	d->ending -= launch->leaves;
	d->growing -= share->taken;
	d->leaning -= share->leans;
	leans = false;
	if (!d->leaning)
		pthread_cond_broadcast(&upright);
}

static bool begin_on(struct gp_graph_launch *launch,
		     struct gp_graph_share *share, uint64_t era)
{
	uint64_t bytes = enter(launch, share, era);
	struct gp_charge charge = {GP_PART_graph, bytes, NULL};

	if (!bytes || !gp_device_capped(share->device))
		return true;
	if (reserve(share->device, &charge))
		share->taken = bytes;
	pthread_mutex_lock(&lock);
	device_at(share->device)->growing += share->taken;
	if (!share->taken)
		leave(launch, share);
	pthread_mutex_unlock(&lock);
	return share->taken;
}

/* Memory that is taken in larger steps than was believed. */
static void learn_chunk(struct device *d, const struct gp_graph_share *share,
			uint64_t reserved)
{
	uint64_t grown =
		reserved > share->before ? reserved - share->before : 0;

	if (share->alone && d->launches == 1 && share->taken &&
	    grown > share->taken && grown <= CHUNK_MAX)
		d->chunk = grown;
}

/* Under the lock: the reservation becomes `now`. */
static void measured(struct device *d, const struct gp_graph_share *share,
		     uint64_t now)
{
	struct gp_limit *limit = gp_device_limit(share->device);
	struct gp_charge charge = {GP_PART_graph, share->taken, NULL};

	if (share->taken)
		gp_limit_measured(limit, &charge, d->charged, now);
	else
		gp_limit_adjust(limit, GP_PART_graph, d->charged, now);
	d->charged = now;
}

/* Under the lock. False: another thread's answer is newer, and may have left out
 * what is reserved here. */
static bool follow(struct device *d, const struct gp_graph_share *share,
		   const struct answer *a)
{
	if (a->number <= d->as_of)
		return false;
	if (a->told) {
		learn_chunk(d, share, a->reserved);
		measured(d, share, to_charge(d, share->taken, a));
	} else { /* no better figure than our own */
		measured(d, share, d->charged + share->taken);
	}
	d->as_of = a->number;
	return true;
}

/* The reservation becomes what the driver really has. */
static void end_on(struct gp_graph_launch *launch, struct gp_graph_share *share)
{
	struct device *d = device_at(share->device);
	uint64_t excess;
	bool done = false;

	for (int i = 0; !done; i++) {
		struct answer a = ask(share->device);

		pthread_mutex_lock(&lock);
		done = follow(d, share, &a);
		if (!done && i == MAX_TRIES) {
			measured(d, share, d->charged + share->taken);
			done = true;
		}
		if (done)
			leave(launch, share);
		pthread_mutex_unlock(&lock);
	}
	/* What it took cannot be refused any more, and a launch does not wait. */
	excess = gp_limit_excess(gp_device_limit(share->device));
	if (excess)
		gp_room_make_idle(share->device, excess);
}

static bool begin(struct gp_graph_launch *launch, uint64_t era,
		  const char *call)
{
	for (unsigned i = 0; i < launch->num; i++) {
		if (begin_on(launch, &launch->on[i], era))
			continue;
		gp_take_refused(launch->on[i].device, launch->on[i].bytes,
				call);
		while (i--)
			end_on(launch, &launch->on[i]);
		return false;
	}
	return true;
}

bool gp_graph_begin_launch(struct gp_graph_launch *launch, CUgraphExec exec,
			   CUstream stream, const char *call)
{
	struct gp_graph_need need;
	uint64_t era;

	launch->num = 0;
	if (!gp_running())
		return true;
	launch->exec = exec;
	launch->stream = key_of(stream);
	if (!gp_graph_exec_find(exec, launch->stream, &need, &era))
		return true;
	set_up(launch, &need);
	return begin(launch, era, call);
}

bool gp_graph_begin_upload(struct gp_graph_launch *launch, CUgraph graph,
			   const char *call)
{
	struct gp_graph_need need;

	launch->num = 0;
	if (!gp_running() || !gp_graphs_may_allocate())
		return true;
	launch->exec = NULL;
	launch->stream = 0;
	gp_graph_ask(graph, &need);
	set_up(launch, &need);
	return begin(launch, 0, call);
}

void gp_graph_end_launch(struct gp_graph_launch *launch, CUresult rc)
{
	for (unsigned i = 0; i < launch->num; i++)
		end_on(launch, &launch->on[i]);
	if (rc == CUDA_SUCCESS && launch->exec && launch->num == 1)
		gp_graph_exec_has(launch->exec, launch->stream,
				  launch->leaves ? 0 : launch->on[0].era);
}
