/*
 * The owner's side: handles of the pool's allocations, and the thread that
 * serves who opens them; see ipc.h.
 *
 * The thread starts with the first handle. Each connection is one mapping of
 * one allocation. It ends with a farewell, or when the other process is gone:
 * then only once it is really dead, since until then the device may still work
 * for it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "shim/ipc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "pool/notes.h"
#include "pool/pool.h"
#include "shim/context.h"
#include "shim/keeper.h"
#include "shim/reporter.h"
#include "shim/state.h"
#include "stats/clock.h"
#include "stats/log.h"
#include "stats/process_file.h"

#define MAX_CONNECTIONS 1024
#define MAX_PIECES      (1u << 17) /* 256 GiB in pieces of 2 MiB */

/* A process that is gone without a farewell is looked at so often, and counts
 * as dead after so long: it may have become another program by exec. */
#define LOOK_MS         20
#define GRACE_MS        5000

static const char magic[8] = "gpupool";

/* Written under start_lock, before `serving` is published; then constant. */
static struct gp_handoff_name own_name;
static struct gp_handoff listener = {.fd = -1};
static int serving; /* atomic: 0: not yet, 1: it does, -errno: it cannot */
static bool told;   /* that there is no thread; start_lock */
/* Leaf. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

struct connection {
	struct gp_handoff socket;
	struct gp_process_id peer;
	uint64_t base, id;   /* what it has mapped; id 0: nothing yet */
	uint64_t gone_at_ms; /* its end was seen; 0: it is there */
};

/* The thread's. */
static struct connection connections[MAX_CONNECTIONS];
static size_t num_connections;

static uint64_t now_ms(void)
{
	return gp_clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* ---- handles --------------------------------------------------------------------- */

static uint32_t check_of(const struct gp_ipc_handle *parts)
{
	struct gp_ipc_handle copy = *parts;

	copy.check = 0;
	return gp_crc32(0, &copy, sizeof(copy));
}

bool gp_ipc_read(const CUipcMemHandle *handle, struct gp_ipc_handle *parts)
{
	memcpy(parts, handle, sizeof(*parts));
	return !memcmp(parts->magic, magic, sizeof(magic)) &&
	       parts->check == check_of(parts);
}

bool gp_ipc_is_own(const struct gp_ipc_handle *parts)
{
	return __atomic_load_n(&serving, __ATOMIC_ACQUIRE) > 0 &&
	       parts->pid == own_name.pid && parts->start == own_name.start &&
	       parts->token == own_name.token;
}

/* ---- what one gets ------------------------------------------------------------------ */

struct request {
	struct connection *connection;
	struct gp_pool_piece *pieces;
	struct gp_ipc_part part;
	size_t n;
	bool held;
	CUresult result;
};

/* Sends pieces from `first` on; their descriptors live only here. */
static CUresult send_some(struct request *request, size_t first)
{
	struct gp_ipc_part *part = &request->part;
	int fds[GP_HANDOFF_FDS] = {0};
	CUresult rc = CUDA_SUCCESS;
	size_t n = 0;

	while (n < GP_HANDOFF_FDS && first + n < request->n && !rc) {
		rc = gp_real()->cuMemExportToShareableHandle(
			&fds[n], request->pieces[first + n].handle,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		if (!rc)
			part->sizes[n] = request->pieces[first + n].bytes;
		n += !rc;
	}
	part->first = (uint32_t)first;
	if (!rc && gp_handoff_send(&request->connection->socket, part,
				   sizeof(*part), fds, n))
		rc = CUDA_ERROR_MAP_FAILED;
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	return rc;
}

static void serve_from(struct gp_context *context, void *arg)
{
	struct request *request = arg;
	struct gp_ipc_part *part = &request->part;
	const struct connection *c = request->connection;
	size_t n = 0;

	if (!context->pool || context->pool != gp_pool_of(c->base) ||
	    gp_pool_hold(context->pool, c->base, c->id, request->pieces,
			 MAX_PIECES, &n, &part->offset, &part->bytes))
		return;
	request->held = true;
	request->n = n;
	part->pieces = (uint32_t)n;
	for (size_t i = 0; i < n; i++)
		part->span += request->pieces[i].bytes;
	request->result = CUDA_SUCCESS;
	for (size_t i = 0; i < n && !request->result; i += GP_HANDOFF_FDS)
		request->result = send_some(request, i);
}

static void let_go_from(struct gp_context *context, void *arg)
{
	const struct connection *c = arg;

	if (context->pool && context->pool == gp_pool_of(c->base))
		gp_pool_let_go(context->pool, c->base, c->id);
}

static void let_go(struct connection *c)
{
	if (c->id)
		gp_context_each(let_go_from, c);
	c->id = 0;
}

/* False: it is over. */
static bool serve(struct connection *c, const struct gp_ipc_ask *ask)
{
	struct request request = {
		.connection = c,
		.part.version = GP_IPC_VERSION,
		.result = CUDA_ERROR_INVALID_HANDLE,
	};

	c->base = ask->base;
	c->id = ask->id;
	request.pieces = calloc(MAX_PIECES, sizeof(*request.pieces));
	if (!request.pieces)
		request.result = CUDA_ERROR_OUT_OF_MEMORY;
	else if (gp_reporter_may_call())
		gp_context_each(serve_from, &request);
	free(request.pieces);
	if (!request.result)
		return true;
	if (request.held)
		let_go(c);
	c->id = 0;
	request.part.error = request.result;
	gp_handoff_send(&c->socket, &request.part, sizeof(request.part), NULL,
			0);
	return false;
}

/* ---- the thread --------------------------------------------------------------------- */

static void drop(size_t i)
{
	let_go(&connections[i]);
	gp_handoff_close(&connections[i].socket);
	connections[i] = connections[--num_connections];
	connections[num_connections].socket.fd = -1;
}

/* A message, or the end. False: the connection is to go. */
static bool hear(struct connection *c)
{
	int fds[GP_HANDOFF_FDS];
	struct gp_ipc_ask ask;
	size_t num_fds = 0;
	int n;

	if (!gp_handoff_is_there(&c->socket))
		n = 0; /* the program closed it */
	else
		n = gp_handoff_receive(&c->socket, &ask, sizeof(ask), fds,
				       &num_fds);
	while (num_fds)
		close(fds[--num_fds]);
	if (n == sizeof(ask)) {
		if (ask.version != GP_IPC_VERSION || ask.bye || c->id)
			return false;
		return serve(c, &ask);
	}
	if (!c->id)
		return false;
	c->gone_at_ms = now_ms();
	gp_handoff_close(&c->socket);
	return true;
}

static bool is_dead(const struct connection *c)
{
	return !c->peer.start ||
	       gp_process_start(c->peer.pid) != c->peer.start ||
	       now_ms() - c->gone_at_ms > GRACE_MS;
}

static void welcome(void)
{
	struct connection *c = &connections[num_connections];
	const struct timespec pause = {.tv_nsec = 10000000};
	int rc;

	*c = (struct connection){0};
	rc = gp_handoff_accept(&listener, &c->socket, &c->peer);
	if (!rc && num_connections == MAX_CONNECTIONS - 1)
		gp_handoff_close(&c->socket); /* it gets an error */
	else if (!rc)
		num_connections++;
	else if (rc == -EMFILE || rc == -ENFILE)
		nanosleep(&pause, NULL);
}

static void *run(void *arg)
{
	static struct pollfd polled[MAX_CONNECTIONS + 1];
	int wait;

	pthread_setname_np(pthread_self(), arg);
	while (gp_handoff_is_there(&listener)) {
		size_t n = num_connections;

		wait = -1;
		polled[n] =
			(struct pollfd){.fd = listener.fd, .events = POLLIN};
		for (size_t i = 0; i < n; i++) {
			polled[i] = (struct pollfd){
				.fd = connections[i].socket.fd, /* -1: gone */
				.events = POLLIN,
			};
			if (connections[i].gone_at_ms)
				wait = LOOK_MS;
		}
		if (poll(polled, n + 1, wait) < 0 && errno != EINTR)
			break;
		if (polled[n].revents)
			welcome();
		/* Downwards: one that goes is replaced by the last. */
		for (size_t i = n; i-- > 0;) {
			struct connection *c = &connections[i];

			if (c->gone_at_ms ? is_dead(c)
					  : polled[i].revents && !hear(c))
				drop(i);
		}
	}
	return NULL;
}

/* -EAGAIN: there is no thread to be had now, which was told; another error is
 * there to stay. Under start_lock. */
static int start(void)
{
	const char *what = told ? NULL
				: "sharing memory: until there is one, none "
				  "can be shared with other processes";
	struct gp_process_id self;
	int rc;

	if (!*gp_file_dir())
		return -ENOENT;
	gp_process_self(&self);
	own_name.pid = self.pid;
	own_name.start = self.start;
	if (getrandom(&own_name.token, sizeof(own_name.token), 0) !=
	    sizeof(own_name.token))
		return -EIO;
	rc = gp_handoff_listen(gp_file_dir(), &own_name, &listener);
	if (rc)
		return rc;
	if (gp_thread_start(run, "gpupool-ipc", what))
		return 0;
	told = true;
	gp_handoff_close(&listener);
	gp_handoff_unlink(gp_file_dir(), &own_name);
	return -EAGAIN;
}

static bool serves(void)
{
	int saved = errno;
	int now = __atomic_load_n(&serving, __ATOMIC_ACQUIRE);

	if (now)
		return now > 0;
	pthread_mutex_lock(&start_lock);
	if (!serving) {
		int rc = start();

		if (rc && rc != -EAGAIN)
			gp_warn("no memory can be shared with other processes: "
				"no socket in the runtime directory %s (%s)",
				gp_file_dir(), strerror(-rc));
		if (rc != -EAGAIN) /* else the next handle tries again */
			__atomic_store_n(&serving, rc ? rc : 1,
					 __ATOMIC_RELEASE);
	}
	now = serving;
	pthread_mutex_unlock(&start_lock);
	errno = saved;
	return now > 0;
}

CUresult gp_ipc_export(CUdeviceptr base, uint64_t bytes, CUipcMemHandle *out)
{
	struct gp_pool *pool = gp_pool_of(base);
	struct gp_ipc_handle parts = {.base = base, .bytes = bytes};

	if (!pool || gp_pool_id(pool, base, &parts.id))
		return CUDA_ERROR_INVALID_VALUE;
	if (!serves())
		return CUDA_ERROR_MAP_FAILED;
	memcpy(parts.magic, magic, sizeof(magic));
	parts.pid = own_name.pid;
	parts.start = own_name.start;
	parts.token = own_name.token;
	parts.check = check_of(&parts);
	memcpy(out, &parts, sizeof(parts));
	return CUDA_SUCCESS;
}

void gp_ipc_end(void)
{
	if (__atomic_load_n(&serving, __ATOMIC_ACQUIRE) > 0)
		gp_handoff_unlink(gp_file_dir(), &own_name);
}

/* The thread is not in the child; its sockets are, and would keep others
 * waiting once the parent is gone. */
void gp_ipc_forget(void)
{
	if (__atomic_exchange_n(&serving, -EPERM, __ATOMIC_RELAXED) <= 0)
		return;
	gp_handoff_close(&listener);
	for (size_t i = 0; i < MAX_CONNECTIONS; i++)
		if (connections[i].id)
			gp_handoff_close(&connections[i].socket);
}
