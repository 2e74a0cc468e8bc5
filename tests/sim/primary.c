/*
 * Primary contexts: one a device, always at the same address.
 */
#include "tests/sim/bodies.h"
#include "tests/sim/sim.h"

CUresult sim_primary_ref(struct sim_device *device)
{
	CUresult err = CUDA_SUCCESS;

	if (!device->primary.alive) {
		device->primary.primary = true;
		err = sim_ctx_open(&device->primary, device,
				   device->primary.flags);
	}
	if (!err)
		device->primary.primary_refs++;
	return err;
}

CUresult sim_primary_unref(struct sim_device *device, bool *last)
{
	*last = false;
	if (!device->primary.primary_refs)
		return CUDA_ERROR_INVALID_CONTEXT;
	*last = !--device->primary.primary_refs && device->primary.alive;
	if (*last)
		sim_ctx_close(&device->primary);
	return CUDA_SUCCESS;
}

CUresult sim_primary_retain(CUcontext *out, CUdevice dev)
{
	struct sim_device *device = sim_device_of(dev);
	CUresult err;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	err = sim_primary_ref(device);
	if (!err)
		*out = (CUcontext)(void *)&device->primary;
	sim_unlock();
	return err;
}

CUresult sim_primary_release(CUdevice dev)
{
	struct sim_device *device = sim_device_of(dev);
	CUresult err;
	bool last;

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	err = sim_primary_unref(device, &last);
	sim_unlock();
	if (last)
		sim_delay(sim.settings.destroy_us);
	return err;
}

CUresult sim_primary_reset(CUdevice dev)
{
	struct sim_device *device = sim_device_of(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	if (device->primary.alive)
		sim_ctx_close(&device->primary);
	device->primary.flags = 0;
	sim_unlock();
	sim_delay(sim.settings.destroy_us);
	return CUDA_SUCCESS;
}

CUresult sim_primary_state(CUdevice dev, unsigned *flags, int *active)
{
	struct sim_device *device = sim_device_of(dev);

	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	*flags = device->primary.flags;
	*active = device->primary.alive;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult sim_primary_flags(CUdevice dev, unsigned flags)
{
	struct sim_device *device = sim_device_of(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	device->primary.flags = flags;
	sim_unlock();
	return CUDA_SUCCESS;
}
