/*
 * Damages a process's file at random and has it read, as another process
 * would: it is refused with a word, or what is read lies within the file.
 *
 *   file-fuzz --seed S --ops N
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/ledger.h"
#include "stats/process_file.h"
#include "stats/requests.h"

static uint64_t rng;

static uint64_t below(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % n;
}

static void fail(const char *what, uint64_t op)
{
	fprintf(stderr, "file-fuzz: op %llu: %s\n", (unsigned long long)op,
		what);
	exit(1);
}

/* The checksum may be right all the same: whoever writes the file can. */
static void sign(struct gp_file_head *head)
{
	head->crc = 0;
	head->crc = gp_crc32(0, head, offsetof(struct gp_file_head, state));
}

static void damage(struct gp_file_head *head)
{
	static const size_t fields[] = {
		offsetof(struct gp_file_head, file_bytes),
		offsetof(struct gp_file_head, names_at),
		offsetof(struct gp_file_head, names_bytes),
		offsetof(struct gp_file_head, rows_at),
		offsetof(struct gp_file_head, row_bytes),
		offsetof(struct gp_file_head, num_rows),
		offsetof(struct gp_file_head, ring_at),
		offsetof(struct gp_file_head, num_chunks),
	};
	static const uint32_t values[] = {0,     1,          4095,      4096,
					  65536, 0x7fffffff, 0xffffffff};

	for (uint64_t i = below(4); i; i--) {
		uint32_t value = values[below(7)];

		if (below(2))
			memcpy((char *)head + fields[below(8)], &value,
			       sizeof(value));
		else
			((char *)head)[below(sizeof(*head))] = (char)below(256);
	}
	if (below(4))
		sign(head);
}

static void read_all(int fd, uint64_t op)
{
	static struct gp_file_head head;
	struct gp_ledger_copy copy;
	const char *why = NULL;
	struct stat info;
	int rc = gp_file_read_head(fd, &head, &why);

	if (rc) {
		if (rc != -EINVAL || !why)
			fail("refused without a word", op);
		return;
	}
	if (fstat(fd, &info) || (uint64_t)info.st_size != head.file_bytes ||
	    (uint64_t)head.names_at + head.names_bytes > head.file_bytes ||
	    head.rows_at + (uint64_t)head.row_bytes * head.num_rows >
		    head.file_bytes ||
	    memchr(head.exe, 0, sizeof(head.exe)) == NULL)
		fail("taken, and points outside", op);
	for (unsigned i = 0; i < 20; i++)
		if (!gp_ledger_read(fd, &head, i, &copy) &&
		    strnlen(copy.name, sizeof(copy.name)) == sizeof(copy.name))
			fail("a name without an end", op);
}

/* Names of requests and files as anybody could make them. */
static void names(int dir)
{
	static const char letters[] = "req-0123456789-.gpuol";
	const struct gp_process_id self = {.pid = (uint32_t)getpid()};
	struct gp_file_name parts;
	char name[100] = "req-";
	uint64_t n = 4 + below(90);

	for (uint64_t i = below(2) * 4; i < n; i++)
		name[i] = letters[below(sizeof(letters) - 1)];
	gp_file_name_read(name, &parts);
	gp_request_sweep(dir, name, &self);
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, ops = 1000;
	char scratch[] = "/tmp/gpupool-fuzz-XXXXXX", path[128];
	struct gp_ledger_device device = {.name = "a card"};
	struct gp_file_options options = {
		.xdg = scratch,
		.names = gp_ledger_names,
		.row_bytes = sizeof(struct gp_ledger_row),
		.num_rows = GP_LEDGER_ROWS,
		.conf = "",
		.keep_files = 10,
	};
	static struct gp_file_head good, bad;
	int fd, dir;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--ops"))
			ops = strtoull(argv[i + 1], NULL, 10);
	}
	rng = seed * 0x9e3779b97f4a7c15ull + 1;
	if (!mkdtemp(scratch))
		return 2;
	gp_file_start(&options);
	if (!gp_file)
		return 2;
	gp_ledger_put_device(0, &device);
	snprintf(path, sizeof(path), "%s/%s", gp_file_dir(),
		 gp_file_own_name());
	fd = open(path, O_RDWR | O_CLOEXEC);
	dir = gp_runtime_dir_reopen(gp_file_dir());
	if (fd < 0 || dir < 0 ||
	    pread(fd, &good, sizeof(good), 0) != (ssize_t)sizeof(good))
		return 2;
	for (uint64_t op = 0; op < ops; op++) {
		uint64_t size = good.file_bytes;

		bad = good;
		damage(&bad);
		if (!below(8))
			size = below(2) ? below(size) : bad.file_bytes;
		/* Sparse, and back: the mapping is not touched meanwhile. */
		if (size < 1ull << 40 && ftruncate(fd, (off_t)size))
			fail("ftruncate", op);
		if (pwrite(fd, &bad, sizeof(bad), 0) != (ssize_t)sizeof(bad))
			fail("pwrite", op);
		read_all(fd, op);
		names(dir);
	}
	close(fd);
	unlink(path);
	close(dir);
	rmdir(gp_file_dir());
	rmdir(scratch);
	return 0;
}
