#include "tests/sim/exit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/sim/gpusim.h"
#include "tests/sim/sim.h"

/* Written once before any call is logged, then only read. */
static atomic_int log_fd = -1;

/* path with %p made the process id. */
static void expand(const char *path, char *out, size_t size)
{
	size_t n = 0;

	for (; *path && n + 1 < size; path++) {
		if (path[0] == '%' && path[1] == 'p') {
			int more = snprintf(out + n, size - n, "%d", getpid());

			n += more > 0 ? (size_t)more : 0;
			path++;
		} else {
			out[n++] = *path;
		}
	}
	out[n < size ? n : size - 1] = 0;
}

bool sim_log_open(const char *path)
{
	char name[PATH_MAX];
	int fd;

	if (!*path)
		return true;
	expand(path, name, sizeof(name));
	fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0) {
		fprintf(stderr, "gpusim: call_log: %s: %s\n", name,
			strerror(errno));
		return false;
	}
	atomic_store(&log_fd, fd);
	return true;
}

void sim_log_call(const struct sim_row *row)
{
	int fd = atomic_load_explicit(&log_fd, memory_order_relaxed);
	int saved = errno;
	char line[128];
	int n;

	if (fd < 0)
		return;
	n = snprintf(line, sizeof(line), "%ld %s\n", syscall(SYS_gettid),
		     row->name);
	if (write(fd, line, (size_t)n) != n)
		atomic_store(&log_fd, -1);
	errno = saved;
}

static void write_stats(FILE *f)
{
	fprintf(f, "devices %d\n", sim.devices);
	for (int i = 0; i < sim.devices; i++) {
		struct sim_device *d = &sim.device[i];

		fprintf(f,
			"device%d.total_bytes %" PRIu64 "\n"
			"device%d.used_bytes %" PRIu64 "\n"
			"device%d.peak_bytes %" PRIu64 "\n"
			"device%d.context_bytes %" PRIu64 "\n",
			i, d->total, i, d->used, i, d->peak, i,
			d->context_used);
	}
	for (size_t i = 0; i < sim_row_count; i++) {
		long calls = atomic_load(&sim_rows[i]->calls);

		if (calls)
			fprintf(f, "calls.%s %ld\n", sim_rows[i]->name, calls);
	}
}

static void report_leaks(void)
{
	for (int i = 0; i < sim.devices; i++)
		if (sim.device[i].used)
			fprintf(stderr,
				"gpusim: device %d: %" PRIu64
				" bytes still allocated at exit\n",
				i, sim.device[i].used);
}

void sim_tell(void)
{
	char name[PATH_MAX];
	FILE *f;

	if (sim.settings.leak_report)
		report_leaks();
	if (!*sim.settings.stats)
		return;
	expand(sim.settings.stats, name, sizeof(name));
	f = fopen(name, "we");
	if (f)
		write_stats(f);
	if (!f || fclose(f))
		fprintf(stderr, "gpusim: stats: %s: %s\n", name,
			strerror(errno));
}

#define GPUSIM_API __attribute__((visibility("default")))

static uint64_t figure(int device, size_t offset)
{
	uint64_t value;

	if (device < 0 || device >= SIM_DEVICES_MAX)
		return 0;
	sim_lock();
	memcpy(&value, (char *)&sim.device[device] + offset, sizeof(value));
	sim_unlock();
	return value;
}

GPUSIM_API uint64_t gpusim_used_bytes(int device)
{
	return figure(device, offsetof(struct sim_device, used));
}

GPUSIM_API uint64_t gpusim_peak_bytes(int device)
{
	return figure(device, offsetof(struct sim_device, peak));
}

GPUSIM_API uint64_t gpusim_context_bytes(int device)
{
	return figure(device, offsetof(struct sim_device, context_used));
}
