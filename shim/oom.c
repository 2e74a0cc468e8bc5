/* The moment of a refusal; see oom.h. */
#define _GNU_SOURCE
#include "shim/oom.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/devices.h"
#include "shim/hooks.h"
#include "shim/nvml.h"
#include "shim/state.h"
#include "stats/ledger.h"
#include "stats/report.h"

#define MAX_NAMES     8192 /* of the directory that are looked at */
#define MAX_PROCESSES 128  /* that NVML names */

/* ---- the list ---------------------------------------------------------------------- */

static struct gp_oom_other *entry_of(struct gp_oom *oom, uint32_t pid)
{
	struct gp_oom_other *other;

	for (size_t i = 0; i < oom->num_others; i++)
		if (oom->others[i].pid == pid)
			return &oom->others[i];
	if (oom->num_others == GP_OOM_LISTED) {
		oom->more_others++;
		return NULL;
	}
	other = &oom->others[oom->num_others++];
	*other = (struct gp_oom_other){.pid = pid, .bytes = GP_UNKNOWN};
	return other;
}

/* Whoever holds most comes first. */
static void sort(struct gp_oom *oom)
{
	for (size_t i = 1; i < oom->num_others; i++) {
		struct gp_oom_other other = oom->others[i];
		uint64_t bytes = other.bytes == GP_UNKNOWN ? 0 : other.bytes;
		size_t at = i;

		for (; at; at--) {
			uint64_t before = oom->others[at - 1].bytes;

			if (before != GP_UNKNOWN && before >= bytes)
				break;
			oom->others[at] = oom->others[at - 1];
		}
		oom->others[at] = other;
	}
}

/* ---- processes that run gpupool ------------------------------------------------------ */

struct search {
	struct gp_oom *oom;
	struct gp_process_id self;
	const uint8_t *uuid;
};

/* One refusal at a time; too large for a thread's stack. */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static char names[16384]; /* guarded by it */

static uint64_t word(const struct gp_ledger_copy *row, const char *name)
{
	int at = gp_ledger_word(names, "device", name);

	return at < 0 ? UINT64_MAX : row->words[at];
}

static uint64_t or_nothing(uint64_t bytes)
{
	return bytes == UINT64_MAX ? 0 : bytes;
}

static void enter(struct search *search, const struct gp_file_head *head,
		  const struct gp_ledger_copy *row)
{
	struct gp_oom_other *other = entry_of(search->oom, head->pid);
	const char *slash = strrchr(head->exe, '/');

	if (!other)
		return;
	other->bytes = or_nothing(word(row, "reserved_bytes.all.current")) +
		       or_nothing(word(row, "outside_bytes")) +
		       or_nothing(word(row, "context_bytes"));
	other->cached = or_nothing(word(row, "cached_bytes"));
	snprintf(other->name, sizeof(other->name), "%.40s",
		 slash ? slash + 1 : head->exe);
}

static void look_at_file(struct search *search, int fd)
{
	struct gp_file_head head;
	struct gp_ledger_copy row;
	const char *why;

	if (gp_file_read_head(fd, &head, &why) ||
	    !gp_file_alive(&head, &search->self) ||
	    head.names_bytes >= sizeof(names) ||
	    pread(fd, names, head.names_bytes, head.names_at) !=
		    (ssize_t)head.names_bytes)
		return;
	names[head.names_bytes] = '\0';
	for (unsigned i = 1; i < head.num_rows && i <= GP_LEDGER_DEVICES; i++)
		if (!gp_ledger_read(fd, &head, i, &row) &&
		    !memcmp(row.uuid, search->uuid, sizeof(row.uuid)))
			enter(search, &head, &row);
}

static void visit(void *arg, int dir, const char *name)
{
	struct search *search = arg;
	struct gp_file_name parts;
	const char *why;
	int fd;

	if (!gp_file_name_read(name, &parts) || parts.pid == search->self.pid)
		return;
	fd = gp_file_open(dir, name, &why);
	if (fd < 0)
		return;
	look_at_file(search, fd);
	close(fd);
}

static void ask_ledgers(struct gp_oom *oom, const CUuuid *uuid)
{
	struct search search = {.oom = oom,
				.uuid = (const uint8_t *)uuid->bytes};
	int dir;

	if (!gp_file || !*gp_file_dir())
		return;
	dir = gp_runtime_dir_reopen(gp_file_dir());
	if (dir < 0)
		return;
	gp_process_self(&search.self);
	pthread_mutex_lock(&names_lock);
	gp_runtime_dir_each(dir, MAX_NAMES, visit, &search);
	pthread_mutex_unlock(&names_lock);
	close(dir);
}

/* ---- everybody, by NVML --------------------------------------------------------------- */

/* The name that the kernel knows. */
static void name_of(uint32_t pid, char *name, size_t size)
{
	char path[32];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, name, size - 1);
	close(fd);
	if (n <= 0)
		return;
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
}

static void ask_nvml(struct gp_oom *oom, CUdevice device)
{
	struct gp_nvml_process list[MAX_PROCESSES];
	size_t n = gp_nvml_processes(device, list, MAX_PROCESSES);
	const uint32_t self = (uint32_t)gp_owner_pid();

	bool here = false;

	for (size_t i = 0; i < n; i++) {
		if (list[i].pid != self)
			continue;
		oom->own = list[i].bytes;
		here = true;
	}
	/* Where this process is not among them they are numbered as in another
	 * namespace, and which of them is this one cannot be told. */
	for (size_t i = 0; here && i < n; i++) {
		struct gp_oom_other *other;

		if (list[i].pid == self)
			continue;
		other = entry_of(oom, list[i].pid);
		if (!other)
			continue;
		if (list[i].bytes != GP_UNKNOWN &&
		    (other->bytes == GP_UNKNOWN ||
		     list[i].bytes > other->bytes))
			other->bytes = list[i].bytes;
		if (!other->name[0])
			name_of(other->pid, other->name, sizeof(other->name));
	}
}

/* Another device that the program sees and that has room. */
static void find_room(struct gp_oom *oom)
{
	int count = 0;

	if (gp_real()->cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < count; i++) {
		uint64_t total = gp_device_total(i), used, left;

		if (i == oom->device || !total || !gp_nvml_used(i, &used))
			continue;
		left = total > used ? total - used : 0;
		if (left < oom->bytes || left <= oom->roomy_free)
			continue;
		oom->roomy_device = i;
		oom->roomy_free = left;
	}
}

void gp_oom_look(struct gp_oom *oom, uint64_t bytes, int device,
		 const char *call, bool limit)
{
	const struct gp_real *real = gp_real();
	CUdevice current = -1;
	size_t left, total;
	CUuuid uuid;

	*oom = (struct gp_oom){
		.bytes = bytes,
		.device = device,
		.by_limit = limit,
		.total = GP_UNKNOWN,
		.free = GP_UNKNOWN,
		.own = GP_UNKNOWN,
		.roomy_device = -1,
	};
	snprintf(oom->call, sizeof(oom->call), "%s", call);
	if (real->cuCtxGetDevice(&current) == CUDA_SUCCESS &&
	    current == device &&
	    real->cuMemGetInfo_v2(&left, &total) == CUDA_SUCCESS) {
		oom->free = left;
		oom->total = total;
	}
	if (real->cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS)
		ask_ledgers(oom, &uuid);
	if (gp_nvml_open()) {
		ask_nvml(oom, device);
		find_room(oom);
		gp_nvml_close();
	}
	sort(oom);
}
