/*
 * What the process may take, and has taken: one ledger for each device it
 * sees, and one for pinned host memory.
 *
 * Devices are the process's own ordinals, so CUDA_VISIBLE_DEVICES and MIG have
 * been applied. All functions are thread-safe; gpupool must be running.
 */
#ifndef GP_SHIM_DEVICES_H
#define GP_SHIM_DEVICES_H

#include "conf/conf.h"
#include "pool/limit.h"
#include "shim/hooks.h"

struct gp_report_device;

/* The ledger of a device; never NULL. Its cap comes from the settings when the
 * device is first met. Where it is a share of the device's memory and the
 * driver will not say how much that is, there is no room until it does. */
struct gp_limit *gp_device_limit(CUdevice device);

/* The cap that settings put on a device of so much memory; 0 as long as that
 * is needed and not known. gpupool need not be running. */
uint64_t gp_device_cap(const struct gp_conf *conf, CUdevice device,
		       uint64_t total);

/* The ledger of pinned host memory (host_limit). */
struct gp_limit *gp_host_limit(void);

/* Has any device ever had a cap? While none has, nobody need ask which device
 * a call is about. Synchronization: atomic, relaxed. */
extern bool gp_devices_capped;
void gp_devices_have_caps(void);

/* Does the device have a cap now? */
bool gp_device_capped(CUdevice device);

/* The physical memory of the device, bytes; 0: the driver would not say. */
uint64_t gp_device_total(CUdevice device);

/* A new cap on the device, bytes; GP_NO_LIMIT: none. What is held beyond it is
 * trimmed as far as it is cached; what the program holds stays, and grows no
 * more. 0, -ENODEV: no such device, -EPERM: gpupool is off in this process. */
int gp_device_set_limit(CUdevice device, uint64_t bytes);

/* Has the process used the device, 0 to GP_CONF_DEVICES - 1, so far? */
bool gp_device_met(CUdevice device);

/* The ledgers of the devices met so far, into devices[0..max). Their number. */
size_t gp_devices_report(struct gp_report_device *devices, size_t max);

#endif
