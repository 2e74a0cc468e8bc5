/*
 * cudaMalloc, cudaMallocPitch, cudaFree: a fast path in front of libcudart.
 *
 * On success they answer; on anything else they call the real function, which
 * comes back through the driver hook, so that cudart's creation of contexts,
 * its last error and its capture rules stay its own. The real function is the
 * one that the caller would have got: several runtimes may be loaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "shim/alloc.h"
#include "shim/capture.h"
#include "shim/follow.h"
#include "shim/hooks.h"
#include "shim/state.h"
#include "shim/wide.h"
#include "pool/pool.h"

struct cudart {
#define GP_RUNTIME(name) __typeof__(name) *name;
#include "shim/hooks.def"
	uintptr_t base; /* where it is loaded, for ever; 0: see learn_at() */
	/* From CUDA 12 on cudaSetDevice makes the primary context current at
	 * once; before, the current context may be another device's. */
	bool context_is_current;
};

/* What is loaded now, as dl_iterate_phdr tells it. */
struct survey {
	unsigned long long loads; /* objects ever loaded */
	int num_runtimes;
	bool ucm;           /* UCX's libucm patches the driver's functions */
	uintptr_t base;     /* of the first runtime */
	const char *wanted; /* basename to look for, or NULL for any */
	/* PATH_MAX bytes for the first runtime's path, or NULL. */
	char *path;
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct survey *survey = arg;
	const char *base = base_name(info->dlpi_name);

	(void)size;
	survey->loads = info->dlpi_adds;
	if (!strncmp(base, "libucm.so", 9) || !strncmp(base, "libucm_cuda", 11))
		survey->ucm = true;
	if (strncmp(base, "libcudart.so", 12) != 0 ||
	    (survey->wanted && strcmp(base, survey->wanted) != 0))
		return 0;
	if (survey->num_runtimes++)
		return 0;
	survey->base = info->dlpi_addr;
	if (survey->path)
		snprintf(survey->path, PATH_MAX, "%s", info->dlpi_name);
	return 0;
}

static int look_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned long long *)arg = info->dlpi_adds;
	return 1;
}

static void survey_now(struct survey *survey, const char *wanted, char *path)
{
	*survey = (struct survey){.wanted = wanted, .path = path};
	dl_iterate_phdr(look, survey);
}

/* Fills *runtime from one loaded runtime; false if it is none. */
static bool open_runtime(void *handle, uintptr_t base, struct cudart *runtime)
{
	__typeof__(cudaRuntimeGetVersion) *get_version;
	int version = 0;

	*runtime = (struct cudart){.base = base};
#define GP_RUNTIME(name) \
	runtime->name = (__typeof__(name) *)gp_dlsym(handle, #name);
#include "shim/hooks.def"
	get_version = (__typeof__(cudaRuntimeGetVersion) *)gp_dlsym(
		handle, "cudaRuntimeGetVersion");
	if (!runtime->cudaMalloc || !runtime->cudaFree ||
	    !runtime->cudaMallocPitch)
		return false;
	if (get_version && get_version(&version) == cudaSuccess)
		runtime->context_is_current = version >= 12000;
	return true;
}

/* The name of the runtime that the object around `caller` is linked against
 * ("libcudart.so.13"), NULL if it names none. */
static const char *linked_runtime(const void *caller)
{
	const struct link_map *map = NULL;
	const char *strings = NULL;
	Dl_info info;

	if (!dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return NULL;
	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			strings = (const char *)d->d_un.d_ptr;
	for (const ElfW(Dyn) *d = map->l_ld;
	     strings && d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED &&
		    !strncmp(base_name(strings + d->d_un.d_val), "libcudart.so",
			     12))
			return base_name(strings + d->d_un.d_val);
	return NULL;
}

#define MAX_RUNTIMES 8

/* Runtimes met so far, by their place: they are never unloaded. Entries are written once, then published by
 * num_known (release); guarded by known_lock for writing. Rank: leaf. */
static struct cudart known[MAX_RUNTIMES];
static int num_known;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

/* The only runtime of the process, for the fast path: NULL when there is none
 * or several, or one too old, or when libucm wants to see the driver's
 * functions called. Synchronization: atomic. */
static const struct cudart *fast_runtime;
/* How many objects the linker had ever loaded when that was so. Atomic. */
static unsigned long long fast_loads;

static const struct cudart *find_known(uintptr_t base)
{
	int n = __atomic_load_n(&num_known, __ATOMIC_ACQUIRE);

	for (int i = 0; i < n; i++)
		if (known[i].base == base)
			return &known[i];
	return NULL;
}

static const struct cudart *learn(const struct cudart *runtime)
{
	const struct cudart *found;

	pthread_mutex_lock(&known_lock);
	found = find_known(runtime->base);
	if (!found && num_known < MAX_RUNTIMES) {
		known[num_known] = *runtime;
		found = &known[num_known];
		__atomic_store_n(&num_known, num_known + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&known_lock);
	return found;
}

struct lookup {
	const char *wanted;
	const struct cudart *found;
};

/* The first runtime of that name, or what comes after us in the search order.
 * What is opened here stays open. */
static void learn_at(void *arg)
{
	struct lookup *lookup = arg;
	char path[PATH_MAX] = "";
	void *handle = RTLD_NEXT;
	struct survey survey;
	struct cudart made;

	survey_now(&survey, lookup->wanted, path);
	if (path[0])
		handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (handle && open_runtime(handle, survey.base, &made))
		lookup->found = learn(&made);
}

/* What learn_at() finds, seen in `survey`; NULL: nothing. */
static const struct cudart *runtime_at(const struct survey *survey)
{
	struct lookup lookup = {survey->wanted, find_known(survey->base)};

	if (!lookup.found)
		gp_wide(learn_at, &lookup);
	return lookup.found;
}

__attribute__((noinline, cold)) void gp_runtime_refresh(void)
{
	const struct cudart *runtime = NULL;
	struct survey survey;

	survey_now(&survey, NULL, NULL);
	if (survey.num_runtimes == 1 && !survey.ucm)
		runtime = runtime_at(&survey);
	if (runtime && !runtime->context_is_current)
		runtime = NULL;
	__atomic_store_n(&fast_loads, survey.loads, __ATOMIC_RELAXED);
	__atomic_store_n(&fast_runtime, runtime, __ATOMIC_RELEASE);
}

/* Cold: the real runtime for this caller. NULL: there is none. */
static __attribute__((noinline, cold)) const struct cudart *
real_runtime(const void *caller)
{
	struct survey survey;

	survey_now(&survey, NULL, NULL);
	if (survey.num_runtimes > 1) {
		const char *wanted = linked_runtime(caller);

		if (wanted)
			survey_now(&survey, wanted, NULL);
		if (!survey.num_runtimes)
			survey_now(&survey, NULL, NULL);
	}
	return runtime_at(&survey);
}

static inline bool may_answer(void)
{
	return __atomic_load_n(&fast_runtime, __ATOMIC_ACQUIRE) != NULL;
}

/* The slow way of every function here: the real one, for this caller. Also the
 * moment to look whether the fast way is open. */
static __attribute__((noinline, cold)) const struct cudart *
slow_runtime(const void *caller)
{
	const struct cudart *fast =
		__atomic_load_n(&fast_runtime, __ATOMIC_ACQUIRE);
	unsigned long long loads = 0;

	dl_iterate_phdr(look_loads, &loads);
	if (fast && loads == __atomic_load_n(&fast_loads, __ATOMIC_RELAXED))
		return fast;
	if (gp_running())
		gp_runtime_refresh();
	return real_runtime(caller);
}

void *gp_runtime_hook_of(void *function, const char *name)
{
	struct survey survey;

	survey_now(&survey, NULL, NULL);
	if (survey.num_runtimes != 1)
		return function; /* which one was meant is lost in our export */
#define GP_RUNTIME(hook)          \
	if (!strcmp(name, #hook)) \
		return (void *)hook;
#include "shim/hooks.def"
	return function;
}

cudaError_t cudaMalloc(void **address, size_t bytes)
{
	const struct cudart *real;
	cudaError_t error;
	CUdeviceptr va;
	CUresult rc;

	if (address && may_answer() &&
	    gp_serve_alloc(&va, bytes, "cudaMalloc", &rc) == GP_SERVED) {
		if (__builtin_expect(rc == CUDA_SUCCESS, 1)) {
			*address = (void *)va;
			return cudaSuccess;
		}
		gp_repeat_answer(rc);
	}
	real = slow_runtime(__builtin_return_address(0));
	error = real ? real->cudaMalloc(address, bytes)
		     : cudaErrorInitializationError;
	gp_forget_answer();
	return error;
}

/* cudart asks the driver for elements of 4 bytes. */
cudaError_t cudaMallocPitch(void **address, size_t *pitch, size_t width,
			    size_t height)
{
	const struct cudart *real;
	cudaError_t error;
	CUdeviceptr va;
	CUresult rc;

	if (address && may_answer() &&
	    gp_serve_pitch(&va, pitch, width, height, 4, "cudaMallocPitch",
			   &rc) == GP_SERVED) {
		if (__builtin_expect(rc == CUDA_SUCCESS, 1)) {
			*address = (void *)va;
			return cudaSuccess;
		}
		gp_repeat_answer(rc);
	}
	real = slow_runtime(__builtin_return_address(0));
	error = real ? real->cudaMallocPitch(address, pitch, width, height)
		     : cudaErrorInitializationError;
	gp_forget_answer();
	return error;
}

cudaError_t cudaFree(void *address)
{
	const struct cudart *real;
	cudaError_t error;
	CUresult rc;

	if (may_answer() &&
	    gp_serve_free((CUdeviceptr)address, __builtin_return_address(0),
			  &rc) == GP_SERVED) {
		if (__builtin_expect(rc == CUDA_SUCCESS, 1))
			return cudaSuccess;
		gp_repeat_answer(rc);
	}
	real = slow_runtime(__builtin_return_address(0));
	gp_free_caller = __builtin_return_address(0);
	error = real ? real->cudaFree(address) : cudaErrorInitializationError;
	gp_free_caller = NULL;
	gp_forget_answer();
	return error;
}
