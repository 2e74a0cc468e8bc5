/*
 * order-fuzz: random programs under the library and the simulated driver's
 * order oracle.
 *
 * Each seed is one program in a process of its own, with threads that take
 * turns and a device without time, so it runs the same way again. Exit status
 * 0: clean; 1: the oracle objected, or the program saw wrong contents (the
 * seed and both histories are on stderr); 2: wrong use.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/order/world.h"

#define SEED_LIMIT_S 240

static struct {
	unsigned long first, last;
	unsigned ops, streams, threads; /* threads 0: by seed, 1 to 3 */
	unsigned contexts;
	const char *mutate, *library;
	bool list, plain, quiet, ticks;
} args = {.first = 1, .last = 1, .ops = 2000, .streams = 4, .contexts = 1};

static int usage(const char *why)
{
	fprintf(stderr,
		"order-fuzz: %s\n"
		"usage: order-fuzz [--seeds A-B] [--ops M] [--streams S]\n"
		"  [--threads T] [--contexts C] [--mutate RULE] [--library "
		"PATH]\n"
		"  [--plain] [--ticks] [--quiet] | --list-rules\n",
		why);
	return 2;
}

static bool number(const char *text, unsigned long low, unsigned long high,
		   unsigned long *value, char end)
{
	char *rest;

	if (*text < '0' || *text > '9')
		return false;
	*value = strtoul(text, &rest, 10);
	return *rest == end && *value >= low && *value <= high;
}

static bool read_seeds(const char *text)
{
	const char *dash = strchr(text, '-');

	if (!dash)
		return number(text, 1, UINT32_MAX, &args.first, 0) &&
		       number(text, 1, UINT32_MAX, &args.last, 0);
	return number(text, 1, UINT32_MAX, &args.first, '-') &&
	       number(dash + 1, args.first, UINT32_MAX, &args.last, 0);
}

static const char *read_args(int argc, char **argv)
{
	static const struct option options[] = {
		{"seeds", required_argument, NULL, 's'},
		{"ops", required_argument, NULL, 'o'},
		{"streams", required_argument, NULL, 'n'},
		{"threads", required_argument, NULL, 't'},
		{"contexts", required_argument, NULL, 'c'},
		{"mutate", required_argument, NULL, 'm'},
		{"library", required_argument, NULL, 'l'},
		{"list-rules", no_argument, NULL, 'r'},
		{"plain", no_argument, NULL, 'p'},
		{"quiet", no_argument, NULL, 'q'},
		{"ticks", no_argument, NULL, 'k'},
		{0},
	};
	unsigned long value = 0;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			if (!read_seeds(optarg))
				return "--seeds wants A-B, from 1 up";
			break;
		case 'o':
			if (!number(optarg, 1, 10000000, &value, 0))
				return "--ops wants a number";
			args.ops = (unsigned)value;
			break;
		case 'n':
			if (!number(optarg, 1, MAX_STREAMS, &value, 0))
				return "--streams wants 1 to 16";
			args.streams = (unsigned)value;
			break;
		case 't':
			if (!number(optarg, 1, MAX_THREADS, &value, 0))
				return "--threads wants 1 to 8";
			args.threads = (unsigned)value;
			break;
		case 'c':
			if (!number(optarg, 1, MAX_CONTEXTS, &value, 0))
				return "--contexts wants 1 or 2";
			args.contexts = (unsigned)value;
			break;
		case 'm':
			args.mutate = optarg;
			break;
		case 'l':
			args.library = optarg;
			break;
		case 'r':
			args.list = true;
			break;
		case 'p':
			args.plain = true;
			break;
		case 'q':
			args.quiet = true;
			break;
		case 'k':
			args.ticks = true;
			break;
		default:
			return "not an option";
		}
	}
	return optind < argc ? "not an option" : NULL;
}

/* ---- the library --------------------------------------------------------------------- */

/* Reports of the library go here, and with us. */
static char scratch[] = "/tmp/order-fuzz-XXXXXX";

static void configure(void)
{
	const char *conf = getenv("GPUPOOL_CONF");
	char all[1024];

	if (!mkdtemp(scratch)) {
		perror("order-fuzz: mkdtemp");
		exit(2);
	}
	snprintf(all, sizeof(all),
		 "%s%squiet:True,ring_events:False,report_dir:%s",
		 conf ? conf : "", conf && *conf ? "," : "", scratch);
	setenv("GPUPOOL_CONF", all, 1);
	setenv("ORDER_FUZZ_STARTED", scratch, 1);
}

static void clean_up(void)
{
	const char *place = getenv("ORDER_FUZZ_STARTED");
	DIR *dir = place ? opendir(place) : NULL;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	if (place)
		rmdir(place);
}

/* The library to preload; NULL: there is none, and why was told. */
static const char *find_library(const char *exe)
{
	static char path[PATH_MAX];

	if (args.library) {
		if (!realpath(args.library, path)) {
			usage("no such library");
			return NULL;
		}
	} else {
		char *copy = strdup(exe);

		snprintf(path, sizeof(path), "%s/../mut/libgpupool.so",
			 dirname(copy));
		free(copy);
	}
	if (access(path, R_OK)) {
		usage("no library built with -DGP_MUTATIONS");
		return NULL;
	}
	return path;
}

/* Of the environment only what has to do with us: its size shifts what is
 * allocated later. */
static void keep_environment(void)
{
	static const char *const names[] = {"GPUPOOL_CONF", "GPUPOOL_SIM",
					    "LD_LIBRARY_PATH"};
	char *kept[3];

	for (int i = 0; i < 3; i++) {
		const char *value = getenv(names[i]);

		kept[i] = strdup(value ? value : "");
	}
	clearenv();
	for (int i = 0; i < 3; i++) {
		setenv(names[i], kept[i], 1);
		free(kept[i]);
	}
}

/* Start again with the library in front of the driver, and at the same
 * addresses each time, as tables are sorted by them. */
static int start_again(char **argv)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	const char *library;

	if (n <= 0)
		return usage("does not know where it is");
	exe[n] = 0;
	keep_environment();
	if (!args.plain) {
		library = find_library(exe);
		if (!library)
			return 2;
		setenv("LD_PRELOAD", library, 1);
	}
	configure();
	personality(ADDR_NO_RANDOMIZE);
	execv(exe, argv);
	return usage("cannot start itself");
}

static const char *(*rule_name)(int rule);
static const char *(*rule_what)(int rule);
static int *mutation;

static void find_rules(void)
{
	void (**step)(void) = dlsym(RTLD_DEFAULT, "gp_mutation_step");

	rule_name = (const char *(*)(int))dlsym(RTLD_DEFAULT, "gp_rule_name");
	rule_what = (const char *(*)(int))dlsym(RTLD_DEFAULT, "gp_rule_what");
	mutation = dlsym(RTLD_DEFAULT, "gp_mutation");
	if (step)
		*step = threads_point;
}

static int list_rules(void)
{
	if (!rule_name || !rule_what)
		return usage("the library has no rules to break");
	for (int i = 1; rule_name(i); i++)
		printf("%-24s %s\n", rule_name(i), rule_what(i));
	return 0;
}

static bool break_rule(const char *name)
{
	if (!rule_name || !mutation)
		return false;
	for (int i = 1; rule_name(i); i++)
		if (!strcmp(rule_name(i), name)) {
			*mutation = i;
			return true;
		}
	return false;
}

/* ---- a seed -------------------------------------------------------------------------------- */

/* Go to another context now and then. */
static void wander(void)
{
	if (draw(4) == 0)
		go_to(1 - here());
	if (w.want_peers && !w.peers_asked && !w.crossing && draw(w.ops) < 8) {
		w.inside++;
		enable_peers();
		w.inside--;
	}
}

/* The next thread has other default streams. */
static void renew(unsigned thread)
{
	for (unsigned i = 0; i < w.contexts; i++) {
		w.stream[i * STREAM_SLOTS + PER_THREAD + thread].serial =
			++w.serials;
		w.own_free[i][thread] = 0;
	}
}

/* Until there is nothing left to do; true: another thread is to go on. */
static bool body(unsigned thread)
{
	go_to(0);
	while (w.done < w.ops) {
		while (w.half) /* a lock of no thread of ours gave us the turn */
			threads_yield();
		if (w.contexts > 1)
			wander();
		w.done++;
		w.inside++;
		operate(false);
		w.inside--;
		threads_point();
		if (draw(500) == 0) {
			renew(thread);
			return true;
		}
	}
	return false;
}

static bool set(const char *conf, const char *item)
{
	return conf && strstr(conf, item);
}

static void (*tick)(void);

/* The pools' housekeeping comes at any moment. Then a seed is not the same
 * again. */
static void *tick_on(void *arg)
{
	const struct timespec moment = {0, 20000};

	for (;;) {
		tick();
		nanosleep(&moment, NULL);
	}
	return arg;
}

static void start_ticks(void)
{
	pthread_t thread;

	tick = (void (*)(void))dlsym(RTLD_DEFAULT, "gp_mutation_tick");
	if (!tick || pthread_create(&thread, NULL, tick_on, NULL))
		fail("no housekeeping to be had");
	pthread_detach(thread);
}

/* As if devices reached memory without any stream. */
static void start_only_idle(void)
{
	void (*only_idle)(void) =
		(void (*)(void))dlsym(RTLD_DEFAULT, "gp_mutation_only_idle");

	if (only_idle) {
		only_idle();
		gpusim_expect_idle();
	}
}

static void run_seed(unsigned long seed)
{
	const char *conf = getenv("GPUPOOL_CONF");
	const char *more = getenv("GPUPOOL_SIM");
	bool async = set(conf, "backend:cudaMallocAsync");
	char settings[1024];

	w.seed = seed;
	w.random = seed * 0x2545f4914f6cdd1dull + 1;
	for (int i = 0; i < 8; i++)
		draw(2);
	w.ops = args.ops;
	w.streams = args.streams;
	w.threads = args.threads ? args.threads : 1 + (unsigned)(seed % 3);
	w.contexts = args.contexts;
	w.same_card = w.contexts > 1 && seed / 2 % 3 == 0;
	/* What a peer does without copies leans on frees. */
	if (w.contexts > 1 && !w.same_card && seed / 6 % 2 &&
	    !set(conf, "free_order:reuse"))
		w.want_peers = 1 + seed / 12 % 2;
	w.own = seed % 4 == 1 ? 2 : seed % 4 == 3 || seed % 8 == 6 ? 4 : 0;
	if (set(conf, "free_order:reuse"))
		w.own = 4;
	/* All frees are barriers then, whoever calls. */
	if (set(conf, "free_order:full") || set(conf, "reuse:sync") || async)
		w.own = 0;
	if (w.want_peers)
		w.own = 0;
	w.zero = set(conf, "zero_memory:True");
	w.most = (8ull << 20) << draw(5);
	/* Before it refuses such memory the driver waits for frees that may help:
	 * no call of the library's. */
	w.tight = seed % 5 == 2 && !async;
	snprintf(settings, sizeof(settings),
		 "schedule:%lu,memory:%lluMiB,context:16MiB,devices:%u%s%s",
		 seed,
		 w.tight ? (w.most >> 20) + (w.same_card ? 40 : 24) : 512ull,
		 w.contexts > 1 && !w.same_card ? 2 : 1,
		 more && *more ? "," : "", more ? more : "");
	setenv("GPUPOOL_SIM", settings, 1);
	alarm(SEED_LIMIT_S);
	world_start();
	if (args.ticks)
		start_ticks();
	if (seed % 8 == 5)
		start_only_idle();
	threads_run(w.threads, seed, body);
	world_end();
	syscall(SYS_exit_group, 0);
}

static bool clean(unsigned long seed)
{
	pid_t child = fork();
	int status;

	if (child < 0) {
		perror("order-fuzz: fork");
		exit(2);
	}
	if (!child)
		run_seed(seed);
	if (waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	    WEXITSTATUS(status) == 0)
		return true;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		fprintf(stderr, "order-fuzz: still running after %d s\n",
			SEED_LIMIT_S);
	else if (WIFSIGNALED(status))
		fprintf(stderr, "order-fuzz: died by signal %d\n",
			WTERMSIG(status));
	fprintf(stderr,
		"order-fuzz: seed %lu failed (--ops %u --streams %u "
		"--contexts %u)\n",
		seed, args.ops, args.streams, args.contexts);
	return false;
}

int main(int argc, char **argv)
{
	const char *why = read_args(argc, argv);
	bool all_clean = true;

	if (why)
		return usage(why);
	if (!getenv("ORDER_FUZZ_STARTED"))
		return start_again(argv);
	find_rules();
	if (args.list || (args.mutate && !break_rule(args.mutate))) {
		clean_up();
		return args.list ? list_rules() : usage("no such rule");
	}
	for (unsigned long seed = args.first; all_clean && seed <= args.last;
	     seed++)
		all_clean = clean(seed);
	clean_up();
	if (!all_clean)
		return 1;
	if (!args.quiet)
		printf("order-fuzz: seeds %lu to %lu clean\n", args.first,
		       args.last);
	return 0;
}
