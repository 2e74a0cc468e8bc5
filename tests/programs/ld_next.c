/*
 * Description: dlsym keeps its meaning for everybody else. RTLD_NEXT sees its
 * true caller, twice in a row too; names that only look like CUDA's are left
 * alone; a NULL or default handle neither recurses nor gets lost.
 *
 * ld_next [LIBRARY...]   print where `gp_marker` and a few names are found,
 *                        also as seen by LIBRARY's gp_marker_next()
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* A program's own open, as profilers and sandboxes have one. */
int open(const char *path, int flags, ...)
{
	static int (*real)(const char *, int, ...);

	real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	if (!real)
		return -2;
	if (real == open)
		return -3;
	return real(path, flags, 0600);
}

/* The file name of the library that holds an address, and nothing of its
 * directory. */
static const char *place(void *address)
{
	Dl_info info;
	const char *base;

	if (!address)
		return "nowhere";
	if (!dladdr(address, &info) || !info.dli_fname)
		return "unknown";
	base = strrchr(info.dli_fname, '/');
	return base ? base + 1 : info.dli_fname;
}

static void tell(const char *name, void *address)
{
	printf("%s: %s\n", name, place(address));
}

static void next_twice(void)
{
	void *first = dlsym(RTLD_NEXT, "open");
	void *second = dlsym(RTLD_NEXT, "open");
	int fd = open("/dev/null", O_RDONLY);

	printf("RTLD_NEXT open: found %d, the same %d, not ours %d, works %d\n",
	       first != NULL, first == second, first != (void *)open, fd >= 0);
	fd = open("/dev/null", O_RDONLY);
	printf("and again: %d\n", fd >= 0);
}

static void look_alikes(void)
{
	static const char *const names[] = {"",
					    "c",
					    "cu",
					    "cub",
					    "curl_easy_init",
					    "cu_like",
					    "cuLike",
					    "cudaLike",
					    "cublasLike",
					    "custom",
					    "cuMemAlloc_v2Like",
					    "cudaMallocLike"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		void *found;

		dlerror();
		found = dlsym(RTLD_DEFAULT, names[i]);
		printf("'%s': %s, error %d\n", names[i], place(found),
		       dlerror() != NULL);
		dlerror();
		found = dlsym(RTLD_NEXT, names[i]);
		printf("'%s' next: %s, error %d\n", names[i], place(found),
		       dlerror() != NULL);
	}
}

/* Searches that end in a replacement must end, however often. */
static void default_handle(void)
{
	static const char *const names[] = {
		"cuInit",       "cuMemAlloc_v2",
		"cuMemFree_v2", "cuGetProcAddress_v2",
		"cudaMalloc",   "cuNoSuch"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int found = 0, stable = 1;
		void *first = dlsym(RTLD_DEFAULT, names[i]);

		for (int k = 0; k < 1000; k++) {
			void *now = dlsym(NULL, names[i]);

			found += now != NULL;
			stable &= now == first;
		}
		printf("%s: %s, stable %d\n", names[i],
		       found == 1000 ? "found"
		       : found       ? "at times"
				     : "absent",
		       stable);
	}
}

int main(int argc, char **argv)
{
	/* Here, so that names resolve the same with and without a preload. */
	if (!dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL) ||
	    !dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL))
		return 77;
	next_twice();
	look_alikes();
	default_handle();
	tell("gp_marker next", dlsym(RTLD_NEXT, "gp_marker"));
	tell("gp_marker default", dlsym(RTLD_DEFAULT, "gp_marker"));
	for (int i = 1; i < argc; i++) {
		void *handle = dlopen(argv[i], RTLD_NOW);
		void *(*next)(void) = NULL;

		if (handle)
			next = (void *(*)(void))dlsym(handle, "gp_marker_next");
		if (!next) {
			printf("no gp_marker_next in %s\n", argv[i]);
			return 1;
		}
		tell("gp_marker after the library", next());
	}
	return 0;
}
