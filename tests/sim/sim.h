/*
 * The simulated driver's state, and the functions its parts give each other.
 *
 * One lock guards everything but the atomics: the driver is simulated, not
 * fast. Work on memory (copies, kernels) is done without the lock, on memory
 * pinned for it. "locked" after a function: the caller holds sim.lock.
 *
 * A device address is a number in one window of address space that nothing
 * else can use and nobody can touch from the host: as on a card, a program
 * that dereferences one is killed. What is stored there lives in struct
 * sim_phys, found through the maps below (space.c).
 */
#ifndef SIM_H
#define SIM_H

#include <pthread.h>
#include <stdint.h>

#include "tests/sim/list.h"
#include "tests/sim/settings.h"
#include "tests/sim/table.h"

#define SIM_GRANULE (2ull << 20)
#define SIM_SMALL   (1ull << 20) /* larger ones get whole granules */

struct sim_device;
struct sim_ctx;
struct sim_stream;
struct sim_op;
struct sim_pool;
struct sim_capture;
struct sim_node;
struct sim_cell;
struct sim_domain;
struct sim_slot;

/* Physical memory: on a device, or (device NULL) of the host. */
struct sim_phys {
	struct sim_device *device;
	uint64_t bytes;
	char *at;         /* where the host keeps the contents */
	int fd;           /* shareable memory, else -1 */
	unsigned refs;    /* mappings, handles, work in progress */
	unsigned handles; /* of refs, the program's own */
	bool charged;     /* counts as device memory in use */
	CUmemAllocationProp prop;
	struct sim_list link;   /* shareable ones, for imports */
	struct sim_cell *cells; /* the oracle's; owned */
};

enum sim_region_kind {
	SIM_PLAIN,    /* cuMemAlloc */
	SIM_ASYNC,    /* from a memory pool */
	SIM_GRAPH,    /* of a graph; see graph_memory.h */
	SIM_ARRAY,    /* behind a CUarray */
	SIM_RESERVED, /* cuMemAddressReserve; see struct sim_map */
	SIM_MANAGED,  /* these three are host addresses */
	SIM_PINNED,
	SIM_REGISTERED,
};

/* A range of addresses the driver knows. Regions never overlap. */
struct sim_region {
	CUdeviceptr va;
	uint64_t bytes; /* as asked for */
	uint64_t span;  /* as taken */
	enum sim_region_kind kind;
	bool dying;          /* freed by the program, work still uses it */
	struct sim_ctx *ctx; /* NULL: of no context */
	struct sim_device *device;
	struct sim_phys *phys;
	struct sim_pool *pool;
	struct sim_slot *slot; /* of a graph's: where it lies */
	unsigned held; /* launches that left it allocated, not freed yet */
	bool orphan;   /* its graph is gone */
	uint64_t id;
	unsigned flags; /* of cuMemHostAlloc and its like */
	bool sync_memops;
	struct sim_list link; /* in ctx->regions */
};

/* A handle mapped into a reservation. */
struct sim_map {
	CUdeviceptr va;
	uint64_t bytes;
	struct sim_phys *phys;
	unsigned char access[SIM_DEVICES_MAX]; /* CUmemAccess_flags */
};

struct sim_ctx {
	struct sim_device *device;
	struct sim_ctx *base; /* of a green one: the primary one, else NULL */
	void *green;          /* its CUgreenCtx */
	uint64_t id;
	unsigned flags, api_version;
	unsigned primary_refs; /* of a primary context */
	bool primary, alive;
	CUresult sticky;      /* 0, else the error every call returns */
	unsigned barriers;    /* frees that wait: nothing may be submitted */
	unsigned peers;       /* devices it may reach, a bit each */
	uint64_t small_bytes; /* in small allocations */
	uint64_t small_charged;
	size_t limits[CU_LIMIT_MAX];
	struct sim_stream *legacy;
	struct sim_stream *sweeper; /* see sim_submit_last(); NULL: none yet */
	struct sim_stream *gatekeeper; /* see sim_hold_behind(); the same */
	struct sim_op *held;           /* all new work is behind it, or NULL */
	struct sim_stream *visits;     /* see visit.c; NULL: none yet */
	struct sim_list streams;       /* all of it, the legacy one too */
	struct sim_list regions;       /* freed with the context */
	struct sim_list events, arrays, modules;
	struct sim_list link;      /* in sim.contexts */
	struct sim_domain *domain; /* the oracle's; kept for ever */
};

struct sim_device {
	int ordinal;
	int card, instance; /* physical; instance -1: the whole card */
	uint64_t total, used, peak, context_used;
	struct sim_ctx primary;
	struct sim_pool *default_pool, *pool;
};

/* Guarded by `lock` where nothing else is said. */
struct sim {
	pthread_mutex_t lock;
	pthread_cond_t done; /* some work completed, or a barrier fell */
	pthread_cond_t work; /* for the scheduler */
	atomic_int state;    /* enum sim_state; written under lock */
	atomic_int captures; /* captures under way */
	int self_lookup;     /* written once, at initialisation */
	struct sim_settings settings; /* immutable after start */
	struct sim_device device[SIM_DEVICES_MAX];
	int devices; /* how many the process sees; immutable after start */
	struct sim_list contexts;
	struct sim_list active; /* streams with work */
	long pending;           /* operations not completed */
	uint64_t next_id, next_seq;
	bool stopping;
};
extern struct sim sim;

enum sim_state { SIM_FRESH, SIM_UP, SIM_BAD, SIM_DOWN, SIM_FORKED };

/* What a thread has. */
struct sim_thread {
	struct sim_ctx *stack[64];
	unsigned depth;
	uint64_t serial;    /* 1.. */
	bool per_thread;    /* stream 0 of the call now made */
	bool host_function; /* is the one that runs host functions */
	CUstreamCaptureMode mode;
};
struct sim_thread *sim_thread(void);

void sim_lock(void);
void sim_unlock(void);
uint64_t sim_now(void); /* ns */
/* Wait `us`, unlocked; 0 returns at once. */
void sim_delay(uint64_t us);

/* init.c */
/* Read the settings, at the first call of any entry point. */
void sim_settings_read(void);
/* The device of this ordinal, else NULL. */
struct sim_device *sim_device_of(CUdevice dev);

/* visible.c */
/* Which cards there are for this process, by CUDA_VISIBLE_DEVICES. locked, at
 * start. */
void sim_visible(void);
/* Of a card, or an instance of one. */
void sim_card_uuid(int card, int instance, unsigned char uuid[16]);

/* handles.c: objects the program names by pointer. locked. */
enum sim_kind {
	SIM_K_CTX,
	SIM_K_GREEN,
	SIM_K_STREAM,
	SIM_K_EVENT,
	SIM_K_HANDLE,
	SIM_K_POOL,
	SIM_K_ARRAY,
	SIM_K_MIPMAP,
	SIM_K_MODULE,
	SIM_K_GRAPH,
	SIM_K_EXEC,
};
void sim_handle_add(enum sim_kind kind, const void *object);
void sim_handle_remove(const void *object);
bool sim_handle_is(enum sim_kind kind, const void *object);

/* context.c */
/* The context of this thread, else NULL; alive or not. For a green one the
 * primary one that it is part of. */
struct sim_ctx *sim_current(void);
/* The same, a green one for itself. */
struct sim_ctx *sim_current_named(void);
/* A new context, or one that was destroyed and is to come back; not open.
 * locked. */
struct sim_ctx *sim_ctx_another(void);
/* Make ctx usable: charge the device. locked. */
CUresult sim_ctx_open(struct sim_ctx *ctx, struct sim_device *device,
		      unsigned flags);
/* Wait for its work, then free all it has. locked (dropped meanwhile). */
void sim_ctx_close(struct sim_ctx *ctx);

/* primary.c: retain and release. locked (dropped meanwhile). */
CUresult sim_primary_ref(struct sim_device *device);
CUresult sim_primary_unref(struct sim_device *device, bool *last);

/* green.c. locked. */
/* Wait for its work; CUDA_SUCCESS, or a capture forbids that. */
CUresult sim_green_drain(struct sim_ctx *green);
/* The primary one closes. */
void sim_greens_end(struct sim_ctx *base);

/* phys.c. locked. */
CUresult sim_charge(struct sim_device *device, uint64_t bytes);
void sim_uncharge(struct sim_device *device, uint64_t bytes);
/* `shareable`: can be exported. `charge`: counts against the device. */
CUresult sim_phys_create(struct sim_device *device, uint64_t bytes,
			 bool shareable, bool charge, struct sim_phys **out);
/* Memory behind an exported descriptor: the same one if it is this
 * process's, else another process's, charged here to nobody. */
CUresult sim_phys_import(int fd, struct sim_phys **out);
void sim_phys_ref(struct sim_phys *phys);
void sim_phys_unref(struct sim_phys *phys);

/* space.c. locked. */
int sim_space_init(void);
bool sim_is_device_va(CUdeviceptr va);
CUdeviceptr sim_va_take(uint64_t span, uint64_t align);
void sim_va_give(CUdeviceptr va, uint64_t span, uint64_t align);
/* The region or mapping that holds va, else NULL. */
struct sim_region *sim_region_at(CUdeviceptr va);
struct sim_map *sim_map_at(CUdeviceptr va);
/* Is any mapping inside this range? */
bool sim_map_within(CUdeviceptr va, uint64_t bytes);
/* False: it overlaps another. */
bool sim_region_add(struct sim_region *region);
void sim_region_remove(struct sim_region *region);
bool sim_map_add(struct sim_map *map);
void sim_map_remove(struct sim_map *map);

/* access.c. locked. */
/* Where [va, va + bytes) is stored, as far as one piece goes. */
struct sim_piece {
	char *at;
	uint64_t bytes;
	struct sim_phys *pinned; /* give to sim_piece_done(); may be NULL */
};
/* Who wants to reach memory, and by what rules. */
struct sim_agent {
	struct sim_ctx *ctx;
	bool kernel; /* else a copy: any host memory, any card's memory */
	bool write;
};
/* False: the range's first byte cannot be reached. */
bool sim_reach(const struct sim_agent *agent, CUdeviceptr va, uint64_t bytes,
	       struct sim_piece *piece);
void sim_piece_done(struct sim_piece *piece);
/* Is all of it reachable? */
bool sim_reachable(const struct sim_agent *agent, CUdeviceptr va,
		   uint64_t bytes);
/* Is this pageable host memory? */
bool sim_is_pageable(CUdeviceptr va);

/* alloc.c. locked. */
CUresult sim_region_new(struct sim_ctx *ctx, enum sim_region_kind kind,
			uint64_t bytes, struct sim_region **out);
/* The same where it lies in memory that is there already: `phys`, at `va`. */
CUresult sim_region_place(struct sim_ctx *ctx, enum sim_region_kind kind,
			  uint64_t bytes, struct sim_phys *phys, CUdeviceptr va,
			  struct sim_region **out);
/* How much address space an allocation takes, and where it may begin. */
uint64_t sim_region_span(uint64_t bytes, uint64_t *align);
/* Unmap, uncharge and forget. */
void sim_region_destroy(struct sim_region *region);

/* array.c, module.c: free what a closing context still has. locked. */
void sim_arrays_destroy(struct sim_ctx *ctx);
void sim_modules_destroy(struct sim_ctx *ctx);

#endif
