/*
 * The table, and the door every call comes through.
 */
#include "tests/sim/table.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/exit.h"
#include "tests/sim/gpusim.h"
#include "tests/sim/sim.h"

/* The doors' and rows' own symbols are hidden: see entry.S. */
#define SIM(entry, since, kind, bits, body)                         \
	extern char sim_door_##entry[];                             \
	extern struct sim_row sim_row_##entry;                      \
	struct sim_row sim_row_##entry = {.name = #entry,           \
					  .door = sim_door_##entry, \
					  .version = since,         \
					  .twin = kind,             \
					  .flags = bits};
#define SIM_NO(entry, since) SIM(entry, since, SIM_ANY, SIM_NOTSUP, none)
#include "tests/sim/sim.def"
#undef SIM
#undef SIM_NO

struct sim_row *const sim_rows[] = {
#define SIM(entry, since, kind, bits, body) &sim_row_##entry,
#define SIM_NO(entry, since)                &sim_row_##entry,
#include "tests/sim/sim.def"
#undef SIM
#undef SIM_NO
};
const size_t sim_row_count = sizeof(sim_rows) / sizeof(*sim_rows);

struct sim_row *sim_row_find(const char *name)
{
	for (size_t i = 0; i < sim_row_count; i++)
		if (!strcmp(sim_rows[i]->name, name))
			return sim_rows[i];
	return NULL;
}

void sim_row_fail(struct sim_row *row, long from, long to, int code)
{
	if (!code)
		code = row->flags & SIM_ALLOC ? CUDA_ERROR_OUT_OF_MEMORY
					      : CUDA_ERROR_UNKNOWN;
	atomic_store(&row->fail_from, 0);
	atomic_store(&row->fail_seen, 0);
	atomic_store(&row->fail_to, to);
	atomic_store(&row->fail_code, code);
	atomic_store(&row->fail_from, from);
}

/* A driver that hangs does so with its locks held. */
static atomic_bool hung;

void sim_row_hang(struct sim_row *row, long at)
{
	atomic_store(&row->hang_at, at);
}

static void maybe_hang(struct sim_row *row, long call)
{
	if (call == atomic_load_explicit(&row->hang_at, memory_order_relaxed))
		atomic_store(&hung, true);
	while (atomic_load_explicit(&hung, memory_order_relaxed))
		pause();
}

static _Atomic(void (*)(const char *)) on_call;

static CUresult injected(struct sim_row *row)
{
	long from = atomic_load_explicit(&row->fail_from, memory_order_relaxed);
	long seen;

	if (!from)
		return CUDA_SUCCESS;
	seen = atomic_fetch_add(&row->fail_seen, 1) + 1;
	if (seen < from || seen > atomic_load(&row->fail_to))
		return CUDA_SUCCESS;
	return (CUresult)atomic_load(&row->fail_code);
}

/* What the driver's state says to a call that needs it up. */
static CUresult not_up(void)
{
	switch (atomic_load(&sim.state)) {
	case SIM_UP:
		return CUDA_SUCCESS;
	case SIM_DOWN:
		return CUDA_ERROR_DEINITIALIZED;
	default: /* never initialised, or a forked child */
		return CUDA_ERROR_NOT_INITIALIZED;
	}
}

static CUresult context_state(void)
{
	struct sim_ctx *ctx = sim_current();
	CUresult err = CUDA_SUCCESS;

	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_lock();
	if (!ctx->alive || !sim_current_named()->alive)
		err = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	else if (ctx->sticky)
		err = ctx->sticky;
	sim_unlock();
	return err;
}

static void tell_call(const struct sim_row *row)
{
	void (*fn)(const char *) =
		atomic_load_explicit(&on_call, memory_order_acquire);

	if (fn)
		fn(row->name);
}

CUresult sim_enter(struct sim_row *row)
{
	struct sim_thread *thread = sim_thread();
	CUresult err;

	sim_settings_read();
	maybe_hang(row, atomic_fetch_add_explicit(&row->calls, 1,
						  memory_order_relaxed) +
				1);
	sim_log_call(row);
	tell_call(row);
	thread->per_thread = row->twin == SIM_PER_THREAD;
	if (row->flags & SIM_NOINIT)
		return injected(row);
	err = not_up();
	if (err)
		return err;
	if (row->flags & SIM_NOTSUP)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (thread->host_function)
		return CUDA_ERROR_NOT_PERMITTED;
	err = injected(row);
	if (err)
		return err;
	if (row->flags & SIM_CTX || (row->flags & SIM_WHOLE && sim_current()))
		err = context_state();
	if (!err && row->flags & SIM_UNSAFE && atomic_load(&sim.captures))
		err = sim_capture_forbids();
	return err;
}

/* Where a door leads whose row says NOT_SUPPORTED; sim_enter() says it. */
CUresult sim_not_supported(void);
CUresult sim_not_supported(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

#define GPUSIM_API __attribute__((visibility("default")))

GPUSIM_API long gpusim_calls(const char *function)
{
	struct sim_row *row = sim_row_find(function);

	return row ? atomic_load(&row->calls) : -1;
}

GPUSIM_API void gpusim_reset_counts(void)
{
	for (size_t i = 0; i < sim_row_count; i++)
		atomic_store(&sim_rows[i]->calls, 0);
}

GPUSIM_API void gpusim_on_call(void (*fn)(const char *function))
{
	atomic_store_explicit(&on_call, fn, memory_order_release);
}

GPUSIM_API int gpusim_fail(const char *function, long nth, int code)
{
	struct sim_row *row = sim_row_find(function);

	if (!row)
		return -1;
	sim_row_fail(row, nth, nth, code);
	return 0;
}

GPUSIM_API int gpusim_fail_from(const char *function, long nth, int code)
{
	struct sim_row *row = sim_row_find(function);

	if (!row)
		return -1;
	sim_row_fail(row, nth, LONG_MAX, code);
	return 0;
}
