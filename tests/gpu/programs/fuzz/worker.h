/*
 * One thread of a random program: what it has, and what makes its accesses
 * ordered. Streams of kind SHARED are used by all threads; blocks, events and
 * pinned buffers belong to one thread, and blocks can be given to another.
 *
 * The program is right under plain CUDA and leans on all of it: on events, on
 * the rules of the default stream, on its own waits, and on cudaFree being a
 * barrier, both for the memory that is freed and for all other work of before.
 */
#ifndef FUZZ_WORKER_H
#define FUZZ_WORKER_H

#include "device.cuh"

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

namespace fuzz
{

struct Options {
	long first_seed = 1, last_seed = 1l << 40;
	double seconds = 0; /* 0: all seeds */
	long threads = 4, streams = 4, ops = 1500;
	long lean = 1; /* frees order live data, and let the host look */
	long keep = 0; /* free nothing before the end; lean is 0 then */
	long delay_us = 300, megabytes = 512;
	std::set<std::string> without;
};

extern Options options;

enum Kind { SHARED, OWN, LEGACY, PER_THREAD };

struct Stream {
	cudaStream_t handle = nullptr;
	Kind kind = OWN;
	bool blocking = false, capturing = false;
	uint64_t serial = 0;  /* 0: there is none */
	uint64_t touched = 0; /* of an own one: when it was chosen last */
};

/* An event that several blocks may wait for. */
struct Mark {
	cudaEvent_t event;

	explicit Mark(cudaStream_t stream)
	{
		CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
		CHECK(cudaEventRecord(event, stream));
	}
	Mark(const Mark &) = delete;
	~Mark()
	{
		CHECK(cudaEventDestroy(event));
	}
};

/* An access that later ones of the same block may have to be behind. */
struct Use {
	Stream stream;
	bool write = false;
	bool gone = false; /* the stream cannot be named any more */
	uint64_t moment = 0;
	std::shared_ptr<Mark> mark; /* behind the access, if not null */
};

struct Block {
	uint32_t *p = nullptr;
	size_t words = 0;  /* as allocated */
	size_t filled = 0; /* the first so many hold `content` */
	Content content{};
	std::vector<Use> uses;
	int graphs = 0;    /* execs that use it */
	bool busy = false; /* in a capture under way */
};

struct Pin {
	enum { IDLE, IN, OUT } state = IDLE;
	uint32_t *host = nullptr;
	size_t words = 0;
	Content content{};
	uint64_t moment = 0;
	cudaEvent_t done = nullptr;
};

struct Timer {
	cudaEvent_t event = nullptr;
	uint64_t moment = 0; /* 0: not recorded */
};

struct Exec {
	cudaGraphExec_t handle = nullptr;
	struct Part {
		int block;
		size_t words;
		Content content;
	};
	std::vector<Part> parts;
};

/* What a thread did with a block, to be told if a word there is wrong. */
struct Note {
	uint64_t moment, op;
	const char *name, *what;
	const uint32_t *p;
	size_t words;
	Stream stream; /* serial 0: none has to do with it */
};

constexpr int kThreads = 16;

/* What the threads of one seed have in common. */
struct World {
	long seed = 0;
	std::vector<Stream> shared;
	std::atomic<uint64_t> moment{0}, serial{0}, ops{0}, late{0};
	std::atomic<bool> failed{false};
	/* Held shared by a capture, alone by what would break one. */
	std::shared_mutex captures;
	std::mutex lock;
	std::vector<Block> given;          /* guarded by lock */
	std::vector<void *> kept;          /* guarded by lock */
	std::vector<Note> notes[kThreads]; /* each its thread's */
};

constexpr int kBlocks = 32, kOwn = 4, kPins = 4, kTimers = 4, kExecs = 3;
constexpr int kOrderEvents = 16;
constexpr size_t kPinWords = 1u << 17;

class Worker
{
      public:
	Worker(World *world, int thread);
	void run();

      private:
	World *world;
	int thread;
	Random random;
	Block blocks[kBlocks];
	Stream own[kOwn], legacy, per_thread;
	Pin pins[kPins];
	Timer timers[kTimers];
	Exec execs[kExecs];
	cudaEvent_t order_events[kOrderEvents], fork[2];
	unsigned next_order = 0;
	size_t held = 0;      /* bytes */
	uint64_t settled = 0; /* older work is over */
	uint64_t ops = 0;
	bool capturing = false; /* this thread has a capture under way */
	std::atomic<uint64_t> functions_done{0};
	uint64_t functions = 0;
	const char *op = "start";

	/* run.h: what there is */
	uint64_t now()
	{
		return ++world->moment;
	}
	uint32_t key()
	{
		return (uint32_t)(world->seed & 0xff) << 24 |
		       (uint32_t)(thread & 15) << 20 |
		       (uint32_t)(ops & 0xfffff);
	}
	uint32_t delay();
	int any_block(bool filled);
	Stream any_stream();
	int own_slot(bool used, bool non_blocking);
	void fail(const char *format, ...);
	void note(const char *what, const Block &block, const Stream &stream);
	void step();
	void clean_up();

	/* order.h */
	bool passes(const Use &use, const Stream &stream, bool write) const;
	bool orderable(const Use &use) const;
	bool order(Block &block, const Stream &stream, bool write);
	void used(Block &block, const Stream &stream, bool write);
	void touch(uint64_t serial);
	void detach(Block &block, const Stream &stream, bool with_mark);
	void stream_settled(const Stream &stream, uint64_t before);

	/* memory.h */
	void take(int at, size_t bytes);
	void release(int at);
	void freed(uint64_t before);
	void op_alloc();
	void op_free();
	void op_reuse();
	void op_give();
	void op_get();
	/* work.h */
	void fill(Block &block, const Stream &stream, uint32_t us);
	bool verify(Block &block, const Stream &stream, uint32_t us);
	void op_fill();
	void op_verify();
	void op_exchange();
	void op_copy();
	void op_set();
	/* host.h */
	void look(Pin &pin);
	void op_pin_in();
	void op_pin_out();
	void op_pin_look();
	void op_pageable();
	void op_function();
	/* streams.h */
	void op_event();
	void op_query();
	void query_stream(const Stream &stream);
	void op_wait();
	void op_device_wait();
	void op_stream();
	void new_stream(int at);
	void drop_stream(int at);
	/* graphs.h */
	void add_nodes(Exec &exec, const Stream &stream);
	void op_graph();
	void op_launch();
	void drop_exec(Exec &exec);

	struct Op {
		const char *name;
		int weight;
		void (Worker::*function)();
	};
	static const std::vector<Op> &table();

      public:
	static bool has_op(const std::string &name);
	static std::string op_names();
};

} // namespace fuzz

#endif
