/* Shared devices; see share.h. */
#define _GNU_SOURCE
#include "tests/sim/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/sim/settings.h"

#define SLOTS 512

struct slot {
	uint64_t pid, start; /* pid 0: free */
	uint64_t bytes[SIM_DEVICES_MAX];
};

/* Guarded by sim.lock. The descriptor is shared with no other process. */
static int file = -1;
static unsigned own;
static struct slot slots[SLOTS];
static uint64_t inode;

static uint64_t start_of(uint64_t pid)
{
	char path[64], text[512], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%llu/stat",
		 (unsigned long long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strrchr(text, ')');
	if (!at || at[2] == 'Z' || at[2] == 'X')
		return 0;
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

static off_t place(unsigned slot)
{
	return (off_t)(slot * sizeof(struct slot));
}

/* With the file's lock. Who is gone is taken out. */
static void look(void)
{
	static const struct slot none;

	if (pread(file, slots, sizeof(slots), 0) < 0)
		memset(slots, 0, sizeof(slots));
	for (unsigned i = 0; i < SLOTS; i++) {
		if (!slots[i].pid || start_of(slots[i].pid) == slots[i].start)
			continue;
		slots[i] = none;
		if (pwrite(file, &none, sizeof(none), place(i)) < 0)
			perror("gpusim: shared");
	}
}

static void lock_file(void)
{
	while (flock(file, LOCK_EX) && errno == EINTR)
		;
}

static void unlock_file(void)
{
	flock(file, LOCK_UN);
}

static bool write_own(void)
{
	return pwrite(file, &slots[own], sizeof(slots[own]), place(own)) ==
	       (ssize_t)sizeof(slots[own]);
}

bool sim_share_open(const char *path)
{
	struct stat info;

	if (!*path)
		return true;
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || fstat(file, &info) ||
	    ftruncate(file, (off_t)sizeof(slots))) {
		fprintf(stderr, "gpusim: shared: %s: %s\n", path,
			strerror(errno));
		return false;
	}
	inode = info.st_ino;
	lock_file();
	look();
	while (own < SLOTS && slots[own].pid)
		own++;
	if (own < SLOTS) {
		slots[own].pid = (uint64_t)getpid();
		slots[own].start = start_of(slots[own].pid);
	}
	if (own == SLOTS || !write_own())
		fprintf(stderr, "gpusim: shared: %s: no room\n", path);
	unlock_file();
	return own < SLOTS;
}

bool sim_share_is_on(void)
{
	return file >= 0;
}

uint64_t sim_share_name(void)
{
	return inode;
}

static uint64_t others(int device)
{
	uint64_t sum = 0;

	look();
	for (unsigned i = 0; i < SLOTS; i++)
		if (i != own && slots[i].pid)
			sum += slots[i].bytes[device];
	return sum;
}

uint64_t sim_share_others(int device)
{
	uint64_t sum;

	if (file < 0)
		return 0;
	lock_file();
	sum = others(device);
	unlock_file();
	return sum;
}

bool sim_share_process(unsigned i, int device, unsigned *pid, uint64_t *bytes)
{
	bool found = false;

	if (file < 0)
		return false;
	lock_file();
	look();
	for (unsigned slot = 0; slot < SLOTS && !found; slot++) {
		if (!slots[slot].pid || i--)
			continue;
		*pid = (unsigned)slots[slot].pid;
		*bytes = slots[slot].bytes[device];
		found = true;
	}
	unlock_file();
	return found;
}

bool sim_share_take(int device, uint64_t bytes, uint64_t total)
{
	uint64_t before;
	bool good = true;

	if (file < 0)
		return true;
	lock_file();
	before = slots[own].bytes[device];
	if (bytes > before)
		good = others(device) + bytes <= total;
	slots[own].bytes[device] = good ? bytes : before;
	if (good && !write_own())
		perror("gpusim: shared");
	unlock_file();
	return good;
}
