/*
 * The real driver behind pool/driver.h, one per CUDA context.
 */
#ifndef GP_SHIM_DRIVER_H
#define GP_SHIM_DRIVER_H

#include "pool/driver.h"
#include "pool/limit.h"
#include "shim/hooks.h"

/* Devices that can be another's peer, by number. */
#define GP_MAX_PEERS 64

/* Whether handles are made so that network cards reach them (GPUDirect RDMA), as
 * they do plain memory. There are machines where the device says that it can
 * and no such handle can be made (WSL2): the first one decides. */
enum gp_rdma {
	GP_RDMA_NO,
	GP_RDMA_SAID, /* by the device */
	GP_RDMA_SEEN, /* there is such a handle */
};

struct gp_cuda_driver {
	/* Constant. */
	struct gp_driver driver; /* what the pool is given */
	CUcontext context;
	CUdevice device;
	CUuuid uuid; /* of the device, or of its part (MIG); zeros: unknown */
	CUmemAllocationProp prop; /* of every handle */
	enum gp_rdma rdma;        /* atomic */
	/* Other devices that may reach the memory, and those that ever could, a
	 * bit each; atomic. */
	uint64_t peers, told;
	/* How many contexts of each asked for it. Guarded by the lock of
	 * peers.c. */
	unsigned peer_users[GP_MAX_PEERS];
	struct gp_limit *limit; /* what the device may still give; constant */
	/* The context is, and with it its plain allocations: set before the
	 * pool is destroyed, by the thread that destroys it. Atomic. */
	bool gone;
	/* Kernels and the host share all memory, by their page tables;
	 * constant. */
	bool host_sees_all;
	/* See driver_wait.c; atomic. */
	CUstream giver;    /* segments go back in it; NULL: none yet */
	CUdeviceptr spare; /* to be freed for the wait; 0: none */
	unsigned spare_users;
	/* The piece of memory that spares lie in: how many there are, and
	 * whether it is on the ledger. Guarded by the lock of driver_limit.c. */
	unsigned spares;
	bool spares_charged;
};

/* Fill *cuda for a context of `device`. Asks the driver about the device.
 * Returns 0 or -errno (-EIO: the driver would not say). Thread-safe. */
int gp_cuda_driver_init(struct gp_cuda_driver *cuda, CUcontext context,
			CUdevice device);

/* Takes a little memory, once, so that waiting is possible while a stream
 * captures; none where the limit leaves no room. Waits for nothing. No lock is
 * held. Thread-safe. */
void gp_cuda_keep_spare(struct gp_cuda_driver *cuda);

/* The context is gone, and with it what was kept. Before its pool goes. */
void gp_cuda_gone(struct gp_cuda_driver *cuda);
/* It lives on, and nobody will use this. */
void gp_cuda_discard(struct gp_cuda_driver *cuda);

/* The code behind the last -ENOMEM, -EBUSY or -EIO that this thread got from
 * the seam, for handing on to the program. */
CUresult gp_cuda_last_error(void);
/* The driver function that answered this thread so; a string constant. */
const char *gp_cuda_last_call(void);

#endif
