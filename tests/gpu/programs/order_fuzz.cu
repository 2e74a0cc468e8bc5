/*
 * Random programs of many streams and threads on a real card. Every block
 * holds words that say who wrote them; kernels, some of them slow, write and
 * look. Nobody may ever see another one's words, and the host may see nothing
 * that cudaFree does not allow it to.
 *
 *   order_fuzz [--seeds A-B] [--seconds N] [--threads T] [--streams S]
 *              [--ops N] [--delay US] [--mib M] [--lean 0|1] [--keep 1]
 *              [--without OP,...] [--mutate RULE] [--jitter 1]
 *
 * --seconds: go on from the first seed until then. --lean 0: live data is
 * never ordered by a free, as in programs that order their own streams
 * (gpupool's free_order:reuse). --keep: nothing is freed before a seed's end, so
 * no cudaFree waits; what is wrong then is the program's or the driver's.
 * --mutate: with a library built with
 * -DGP_MUTATIONS, switch off a clause of the protocol; --jitter: let threads
 * be late at its critical points. --without: leave out operations.
 *
 * Exit status 0: clean; 1: something wrong was seen (told on stderr); 2:
 * wrong use; 3: a CUDA call failed; 4: no progress for a minute.
 */
#include <dlfcn.h>
#include <map>
#include <thread>
#include <unistd.h>

#include "fuzz/run.h"

namespace fuzz
{

Options options;

namespace
{

std::atomic<World *> current{nullptr};

int usage(const std::string &why)
{
	fprintf(stderr,
		"order_fuzz: %s\n"
		"usage: order_fuzz [--seeds A-B] [--seconds N] [--threads T] "
		"[--streams S]\n"
		"  [--ops N] [--delay US] [--mib M] [--lean 0|1] "
		"[--keep 1]\n"
		"  [--without OP,...] [--mutate RULE] [--jitter 1]\n"
		"operations: %s\n",
		why.c_str(), Worker::op_names().c_str());
	exit(2);
}

void read_seeds(const char *text)
{
	char *end;

	options.first_seed = options.last_seed = strtol(text, &end, 10);
	if (*end == '-')
		options.last_seed = strtol(end + 1, &end, 10);
	if (*end || options.first_seed < 1 ||
	    options.last_seed < options.first_seed)
		usage("--seeds wants A-B, from 1 up");
}

void read_without(const std::string &text)
{
	for (size_t at = 0; at <= text.size();) {
		size_t comma = std::min(text.find(',', at), text.size());
		std::string name = text.substr(at, comma - at);

		if (!Worker::has_op(name))
			usage("--without: no operation '" + name + "'");
		options.without.insert(name);
		at = comma + 1;
	}
}

/* Now and then a thread is late where it matters. */
void be_late()
{
	thread_local Random random((uint64_t)(uintptr_t)&random);
	uint32_t kind = random.below(256);

	if (kind == 0)
		usleep(random.below(100));
	else if (kind < 16)
		std::this_thread::yield();
}

void mutate(const char *rule, bool jitter)
{
	auto find = (int (*)(const char *))dlsym(RTLD_DEFAULT, "gp_rule_find");
	auto chosen = (int *)dlsym(RTLD_DEFAULT, "gp_mutation");
	auto late = (void (**)())dlsym(RTLD_DEFAULT, "gp_mutation_step");

	if (!find || !chosen || !late)
		usage("nothing preloaded that can be mutated");
	if (rule && !(*chosen = find(rule)))
		usage("--mutate: no rule '" + std::string(rule) + "'");
	if (jitter)
		*late = be_late;
}

void run_seed(long seed, World *world)
{
	Random random((uint64_t)seed);
	std::vector<std::unique_ptr<Worker>> workers;
	std::vector<std::thread> threads;

	world->seed = seed;
	for (long i = 0; i < options.streams; i++) {
		Stream stream;

		stream.kind = SHARED;
		stream.blocking = random.below(2);
		stream.serial = ++world->serial;
		CHECK(cudaStreamCreateWithFlags(
			&stream.handle, stream.blocking
						? cudaStreamDefault
						: cudaStreamNonBlocking));
		world->shared.push_back(stream);
	}
	for (int i = 0; i < options.threads; i++)
		workers.push_back(std::make_unique<Worker>(world, i));
	for (auto &worker : workers)
		threads.emplace_back(&Worker::run, worker.get());
	for (auto &thread : threads)
		thread.join();
	for (Block &block : world->given)
		CHECK(cudaFree(block.p));
	world->given.clear();
	for (Stream &stream : world->shared)
		CHECK(cudaStreamDestroy(stream.handle));
	CHECK(cudaDeviceSynchronize());
	for (void *p : world->kept)
		CHECK(cudaFree(p));
	world->kept.clear();
}

void whose(const char *what, uint32_t key, long seed)
{
	if (key >> 24 != (uint32_t)(seed & 0xff))
		fprintf(stderr, "  %s: %08x, of no operation of this seed\n",
			what, key);
	else
		fprintf(stderr, "  %s: thread %u, operation %u\n", what,
			key >> 20 & 15, key & 0xfffff);
}

/* All that was done there, in the order in which it was done. */
void tell_history(const World &world, const Fault &fault)
{
	static const char *const kinds[] = {"shared", "own", "default",
					    "thread's"};
	std::multimap<uint64_t, std::string> lines;

	for (int i = 0; i < kThreads; i++)
		for (const Note &note : world.notes[i]) {
			const Stream &stream = note.stream;
			char line[160], where[80] = "";

			if (fault.at < note.p ||
			    fault.at >= note.p + note.words)
				continue;
			if (stream.serial)
				snprintf(where, sizeof(where),
					 ", %s%s stream %llu (%p)",
					 kinds[stream.kind],
					 stream.blocking ? " blocking" : "",
					 (Count)stream.serial,
					 (void *)stream.handle);
			snprintf(
				line, sizeof(line),
				"  %llu: thread %d, operation %llu (%s) %s%s\n",
				(Count)note.moment, i, (Count)note.op,
				note.name, note.what, where);
			lines.emplace(note.moment, line);
		}
	/* The last ones: what is older cannot matter. */
	while (lines.size() > 40)
		lines.erase(lines.begin());
	for (const auto &line : lines)
		fputs(line.second.c_str(), stderr);
}

/* True if there is nothing to tell. */
bool tell_faults(const World &world)
{
	unsigned count = num_faults();
	long seed = world.seed;

	for (unsigned i = 0; i < count && i < kFaults; i++) {
		const Fault &fault = faults_on_host->fault[i];

		fprintf(stderr,
			"order_fuzz: seed %ld: at %p (word %u) %08x was "
			"expected, %08x seen\n",
			seed, fault.at, fault.index, fault.expected,
			fault.seen);
		whose("looked", fault.key, seed);
		whose("expected", key_of(fault.expected, fault.index), seed);
		whose("seen", key_of(fault.seen, fault.index), seed);
		if (i == 0)
			tell_history(world, fault);
	}
	if (count)
		fprintf(stderr, "order_fuzz: seed %ld failed, %u wrong words\n",
			seed, count);
	return !count;
}

void watch()
{
	uint64_t last = 0;
	const World *of = nullptr;

	for (int still = 0; still < 60; still++) {
		const World *world = current;

		std::this_thread::sleep_for(std::chrono::seconds(1));
		if (world != of || (world && world->ops != last))
			still = 0;
		of = world;
		last = world ? world->ops.load() : 0;
	}
	fprintf(stderr, "order_fuzz: no progress for a minute\n");
	_exit(4);
}

/* Of all seeds: clean? */
bool run_seeds()
{
	/* Kept: whoever watches may look at an older one. */
	static auto &worlds = *new std::vector<std::unique_ptr<World>>;
	double start = now_ms();
	Count ops = 0, late = 0;
	long seed = options.first_seed;
	bool good = true;

	for (; good && seed <= options.last_seed; seed++) {
		if (options.seconds &&
		    now_ms() - start >= options.seconds * 1e3)
			break;
		worlds.push_back(std::make_unique<World>());
		World *world = worlds.back().get();

		current = world;
		run_seed(seed, world);
		good = tell_faults(*world) && !world->failed;
		for (std::vector<Note> &notes : world->notes)
			notes = {};
		ops += world->ops;
		late += world->late;
	}
	printf("order_fuzz: %ld seeds from %ld on, %llu operations, %llu late "
	       "answers, %.1f s\n",
	       seed - options.first_seed, options.first_seed, ops, late,
	       (now_ms() - start) / 1e3);
	printf("result clean=%d\n", good);
	return good;
}

} // namespace
} // namespace fuzz

int main(int argc, char **argv)
{
	using namespace fuzz;
	const char *text, *rule = nullptr;
	long seconds = 0, jitter = 0;

	for (int i = 1; i < argc; i++) {
		if (text_option(argc, argv, &i, "--seeds", &text))
			read_seeds(text);
		else if (text_option(argc, argv, &i, "--without", &text))
			read_without(text);
		else if (!text_option(argc, argv, &i, "--mutate", &rule) &&
			 !number_option(argc, argv, &i, "--seconds", 1,
					&seconds) &&
			 !number_option(argc, argv, &i, "--jitter", 0,
					&jitter) &&
			 !number_option(argc, argv, &i, "--threads", 1,
					&options.threads) &&
			 !number_option(argc, argv, &i, "--streams", 1,
					&options.streams) &&
			 !number_option(argc, argv, &i, "--ops", 1,
					&options.ops) &&
			 !number_option(argc, argv, &i, "--delay", 0,
					&options.delay_us) &&
			 !number_option(argc, argv, &i, "--mib", 1,
					&options.megabytes) &&
			 !number_option(argc, argv, &i, "--keep", 0,
					&options.keep) &&
			 !number_option(argc, argv, &i, "--lean", 0,
					&options.lean))
			usage(std::string(argv[i]) + ": not an option");
	}
	options.seconds = (double)seconds;
	if (options.keep)
		options.lean = 0;
	if (options.threads > kThreads)
		usage("--threads wants 16 at most");
	if (options.last_seed == 1l << 40 && !seconds)
		options.last_seed = options.first_seed + 9;
	if (rule || jitter)
		mutate(rule, jitter);
	CHECK(cudaSetDevice(0));
	find_faults();
	load_kernels();
	std::thread(watch).detach();
	return run_seeds() ? 0 : 1;
}
