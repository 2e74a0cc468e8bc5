/*
 * The process's file, its ring and its ledger, from inside; and what the
 * readers in C make of files that are no good.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "stats/bell.h"
#include "stats/ledger.h"
#include "stats/requests.h"
#include "stats/ring.h"
#include "stats/runtime_dir.h"

static char scratch[] = "/tmp/gpupool-test-XXXXXX";

static int open_dir(void)
{
	int dir = gp_runtime_dir_reopen(gp_file_dir());

	assert_true(dir >= 0);
	return dir;
}

static int start_file(void **state)
{
	struct gp_file_options options = {
		.xdg = scratch,
		.names = gp_ledger_names,
		.row_bytes = sizeof(struct gp_ledger_row),
		.num_rows = GP_LEDGER_ROWS,
		.ring_bytes = 16 * GP_RING_CHUNK,
		.conf = "quiet:True",
		.keep_files = 5,
		.keep_bytes = UINT64_MAX,
	};

	(void)state;
	if (!mkdtemp(scratch))
		return -1;
	errno = 77;
	gp_file_start(&options);
	if (errno != 77 || !gp_file)
		return -1;
	gp_bell_start();
	return 0;
}

static void remove_one(void *arg, int dir, const char *name)
{
	(void)arg;
	unlinkat(dir, name, 0);
}

static int remove_all(void **state)
{
	int dir = open_dir();

	(void)state;
	gp_runtime_dir_each(dir, 1000, remove_one, NULL);
	close(dir);
	rmdir(gp_file_dir());
	return rmdir(scratch);
}

/* Events of the ring that are whole. */
static unsigned count_events(uint64_t *newest)
{
	const struct gp_ring_event *e = gp_file_at(gp_file->ring_at);
	const size_t per_chunk = GP_RING_CHUNK / sizeof(*e);
	unsigned n = 0;

	*newest = 0;
	for (size_t i = 0; i < gp_file->num_chunks * per_chunk; i++) {
		if (i % per_chunk == 0 ||
		    e[i].check != gp_ring_sum(e[i].ticks, e[i].address,
					      e[i].requested, e[i].bytes,
					      e[i].allocated, e[i].reserved,
					      e[i].what))
			continue;
		n++;
		if (e[i].address > *newest)
			*newest = e[i].address;
	}
	return n;
}

static void test_header(void **state)
{
	static struct gp_file_head head;
	struct gp_process_id self, owner;
	struct gp_file_name name;
	const char *why = NULL;
	struct stat info;
	int dir = open_dir(), fd;

	(void)state;
	fd = gp_file_open(dir, gp_file_own_name(), &why);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	assert_int_equal(gp_file_read_head(fd, &head, &why), 0);
	assert_int_equal(head.pid, getpid());
	assert_string_equal(head.conf, "quiet:True");
	assert_int_equal(head.num_chunks, 16);
	assert_true(gp_file_name_read(gp_file_own_name(), &name));
	assert_int_equal(name.pid, head.pid);
	assert_int_equal(name.start, head.start);
	gp_process_self(&self);
	assert_int_equal(
		gp_process_file_owner(dir, gp_file_own_name(), &owner, &why),
		0);
	assert_int_equal(gp_process_life(&owner, &self), GP_ALIVE);
	owner.start++;
	assert_int_equal(gp_process_life(&owner, &self), GP_DEAD);
	owner = self;
	owner.pid_ns++;
	assert_int_equal(gp_process_life(&owner, &self), GP_ELSEWHERE);
	owner = self;
	owner.boot_id[0]++;
	assert_int_equal(gp_process_life(&owner, &self), GP_DEAD);
	close(fd);
	close(dir);
}

static void test_zombie(void **state)
{
	struct gp_process_id self, child;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	gp_process_self(&self);
	child = self;
	child.pid = (uint32_t)pid;
	/* Whatever it was while it ran: nothing now. */
	while (gp_process_start(child.pid))
		usleep(1000);
	child.start = 12345;
	assert_int_equal(gp_process_life(&child, &self), GP_DEAD);
	waitpid(pid, NULL, 0);
}

static void test_names(void **state)
{
	static const char *const bad[] = {
		"",
		"1-2-3",
		"1-2-3.gpupoolx",
		"-1-2-3.gpupool",
		"1-2.gpupool",
		"1-2-3-4.gpupool",
		"a-2-3.gpupool",
		"1-2- 3.gpupool",
		"99999999999-2-3.gpupool",
		"1-99999999999999999999999-3.gpupool",
	};
	struct gp_file_name parts;
	char name[GP_FILE_NAME];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(gp_file_name_read(bad[i], &parts));
	parts = (struct gp_file_name){INT32_MAX, UINT64_MAX, UINT32_MAX};
	gp_file_name_print(&parts, name);
	assert_true(gp_file_name_read(name, &parts));
	assert_int_equal(parts.start, UINT64_MAX);
}

static void test_ring(void **state)
{
	uint64_t newest;

	(void)state;
	errno = 5;
	for (uint64_t i = 1; i <= 100; i++)
		gp_ring_add(GP_RING_alloc, 0, i, i, i, i, i);
	assert_int_equal(errno, 5);
	assert_int_equal(count_events(&newest), 100);
	assert_int_equal(newest, 100);
	for (uint64_t i = 101; i <= 5000; i++)
		gp_ring_add(GP_RING_free, 255, i, i, i, i, i);
	/* Full, and the newest are there. */
	assert_int_equal(count_events(&newest), 16 * 63);
	assert_int_equal(newest, 5000);
	assert_int_equal(gp_file->taken, (5000 + 62) / 63);
}

static void *add_many(void *arg)
{
	(void)arg;
	for (uint64_t i = 1; i <= 100000; i++)
		gp_ring_add(GP_RING_alloc, 0, i, i, i, i, i);
	return NULL;
}

/* Threads that take each other's chunks over: whole events, or none. */
static void test_ring_threads(void **state)
{
	pthread_t threads[8];
	uint64_t newest;

	(void)state;
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, add_many, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	assert_in_range(count_events(&newest), 16 * 63 - 8, 16 * 63);
	assert_int_equal(newest, 100000);
}

static void test_ledger(void **state)
{
	struct gp_ledger_process process = {.devices = 1};
	struct gp_ledger_device device = {.ordinal = 3, .name = "a card"};
	static struct gp_file_head head;
	struct gp_ledger_copy copy;
	struct gp_ledger_row *rows = gp_file_at(gp_file->rows_at);
	const char *why;
	int dir = open_dir(), fd, at;

	(void)state;
	fd = gp_file_open(dir, gp_file_own_name(), &why);
	assert_int_equal(gp_file_read_head(fd, &head, &why), 0);
	assert_int_equal(gp_ledger_read(fd, &head, 1, &copy), -ENOENT);
	device.stats.reserved_bytes.current = 4096;
	gp_ledger_put_device(0, &device);
	device.stats.reserved_bytes.current = 8192;
	gp_ledger_put_device(0, &device);
	gp_ledger_put_process(&process);
	gp_ledger_put_device(GP_LEDGER_DEVICES, &device); /* no such row */
	at = gp_ledger_word(gp_ledger_names, "device",
			    "reserved_bytes.all.current");
	assert_true(at > 0);
	assert_int_equal(gp_ledger_read(fd, &head, 1, &copy), 0);
	assert_int_equal(copy.words[at], 8192);
	assert_string_equal(copy.name, "a card");
	/* Torn while the newer one was written: the older one counts. */
	rows[1].copies[1].words[at] ^= 1;
	assert_int_equal(gp_ledger_read(fd, &head, 1, &copy), 0);
	assert_int_equal(copy.words[at], 4096);
	rows[1].copies[0].uuid[3] ^= 1;
	assert_int_equal(gp_ledger_read(fd, &head, 1, &copy), -ENOENT);
	assert_int_equal(gp_ledger_read(fd, &head, GP_LEDGER_ROWS, &copy),
			 -ENOENT);
	/* The next one is whole again. */
	gp_ledger_put_device(0, &device);
	assert_int_equal(gp_ledger_read(fd, &head, 1, &copy), 0);
	assert_int_equal(copy.words[at], 8192);
	close(fd);
	close(dir);
}

static void test_words(void **state)
{
	static const char names[] = "process:a,b,\ndevice:c,a,d,\n";

	(void)state;
	assert_int_equal(gp_ledger_word(names, "process", "a"), 0);
	assert_int_equal(gp_ledger_word(names, "process", "c"), -1);
	assert_int_equal(gp_ledger_word(names, "device", "a"), 1);
	assert_int_equal(gp_ledger_word(names, "device", "d"), 2);
	assert_int_equal(gp_ledger_word(names, "dev", "d"), -1);
	assert_int_equal(gp_ledger_word("", "device", "d"), -1);
	assert_int_equal(gp_ledger_word("device", "device", "d"), -1);
	/* Every word has a place. */
	assert_true(gp_ledger_word(gp_ledger_names, "device", "saved_ns") > 0);
	assert_true(gp_ledger_word(gp_ledger_names, "process",
				   "outside.registered.count.freed") > 0);
}

static void answer(const char *text, char *to)
{
	snprintf(to, GP_REQUEST_TEXT, "ok %s\nmore", text);
}

static void test_requests(void **state)
{
	static struct gp_file_head head;
	struct gp_request request = {.fd = -1};
	struct gp_process_id self;
	char text[GP_REQUEST_TEXT];
	uint32_t seen = gp_bell_seen();
	const char *why;
	int dir = open_dir();
	int fd = gp_file_open(dir, gp_file_own_name(), &why);

	(void)state;
	gp_process_self(&self);
	assert_int_equal(gp_file_read_head(fd, &head, &why), 0);
	assert_int_equal(
		gp_request_send(dir, fd, &head, &self, 1, "trim 5", &request),
		0);
	assert_int_not_equal(gp_bell_seen(), seen);
	gp_bell_wait(seen, 1000000000); /* it has rung: no wait */
	assert_int_equal(gp_request_answered(&request, text), 0);
	assert_int_equal(gp_requests_serve(dir, &self, answer), 1);
	assert_int_equal(gp_requests_serve(dir, &self, answer), 0);
	assert_true(gp_request_answered(&request, text) > 0);
	assert_string_equal(text, "ok trim 5?more");
	gp_request_end(dir, &request);
	gp_request_end(dir, &request);
	assert_int_equal(gp_requests_serve(dir, &self, answer), 0);
	assert_false(gp_request_sweep(dir, gp_file_own_name(), &self));
	close(fd);
	close(dir);
}

static void test_fork(void **state)
{
	uint64_t before = gp_file->taken;
	uint64_t newest;
	unsigned events = count_events(&newest);
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		gp_file_forget();
		add_many(NULL);
		gp_file_beat();
		gp_file_end();
		_exit(gp_file ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(gp_file->taken, before);
	assert_int_equal(count_events(&newest), events);
	assert_int_equal(gp_file->state, GP_FILE_RUNS);
}

/* Any byte of the header that is not as written is noticed. */
static void test_damaged_header(void **state)
{
	static struct gp_file_head head, read;
	const char *why;
	int dir = open_dir(), fd, copy;

	(void)state;
	fd = gp_file_open(dir, gp_file_own_name(), &why);
	assert_int_equal(gp_file_read_head(fd, &head, &why), 0);
	copy = openat(dir, "copy", O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(copy >= 0);
	assert_int_equal(ftruncate(copy, (off_t)head.file_bytes), 0);
	assert_int_equal(pwrite(copy, &head, sizeof(head), 0), sizeof(head));
	assert_int_equal(gp_file_read_head(copy, &read, &why), 0);
	for (size_t i = 0; i < offsetof(struct gp_file_head, state); i += 7) {
		char byte = (char)(((const char *)&head)[i] ^ 0x10);

		pwrite(copy, &byte, 1, (off_t)i);
		assert_int_equal(gp_file_read_head(copy, &read, &why), -EINVAL);
		assert_non_null(why);
		pwrite(copy, (const char *)&head + i, 1, (off_t)i);
	}
	assert_int_equal(ftruncate(copy, (off_t)head.file_bytes - 1), 0);
	assert_int_equal(gp_file_read_head(copy, &read, &why), -EINVAL);
	assert_int_equal(ftruncate(copy, 100), 0);
	assert_int_equal(gp_file_read_head(copy, &read, &why), -EINVAL);
	assert_string_equal(why, "it is too short");
	unlinkat(dir, "copy", 0);
	close(copy);
	close(fd);
	close(dir);
}

/* ---- sweeping -------------------------------------------------------------------- */

static void count_one(void *arg, int dir, const char *name)
{
	unsigned *files = arg;
	struct gp_file_name parts;

	(void)dir;
	*files += gp_file_name_read(name, &parts);
}

static unsigned count_files(int dir)
{
	unsigned files = 0;

	assert_int_equal(gp_runtime_dir_each(dir, 1000, count_one, &files), 0);
	return files;
}

/* With that head, or empty. */
static void make_file(int dir, uint32_t pid, uint64_t start,
		      const struct gp_file_head *head)
{
	struct gp_file_name parts = {.pid = pid, .start = start};
	char name[GP_FILE_NAME];
	int fd;

	gp_file_name_print(&parts, name);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	if (head) {
		assert_int_equal(write(fd, head, sizeof(*head)), sizeof(*head));
		assert_int_equal(ftruncate(fd, (off_t)head->file_bytes), 0);
	}
	close(fd);
}

/* Files of processes whose number another one has now: a start does not look at
 * them all, but a few starts do. */
static void test_sweep_of_reused_numbers(void **state)
{
	struct gp_process_id self;
	int dir = open_dir();
	unsigned left;

	(void)state;
	gp_process_self(&self);
	for (unsigned i = 1; i <= 40; i++)
		make_file(dir, self.pid, self.start + i, NULL);
	gp_runtime_dir_sweep(dir, &self, 0, UINT64_MAX);
	left = count_files(dir);
	assert_in_range(left, 21, 35);
	for (int i = 0; i < 10; i++) {
		self.pid++;
		gp_runtime_dir_sweep(dir, &self, 0, UINT64_MAX);
	}
	assert_int_equal(count_files(dir), 1);
	assert_int_equal(faccessat(dir, gp_file_own_name(), F_OK, 0), 0);
	close(dir);
}

/* Of another pid namespace: whether its process runs cannot be told, so that it
 * stays, and takes no other one's place. */
static void test_sweep_from_elsewhere(void **state)
{
	static struct gp_file_head head;
	static const uint32_t none = 0;
	const size_t at = offsetof(struct gp_file_head, crc);
	struct gp_process_id self;
	const char *why;
	int dir = open_dir();
	int fd = gp_file_open(dir, gp_file_own_name(), &why);

	(void)state;
	gp_process_self(&self);
	assert_int_equal(gp_file_read_head(fd, &head, &why), 0);
	head.pid = INT32_MAX; /* nobody has it */
	head.pid_ns++;
	head.crc = gp_crc32(0, &head, at);
	head.crc = gp_crc32(head.crc, &none, sizeof(none));
	head.crc = gp_crc32(head.crc, (char *)&head + at + sizeof(none),
			    offsetof(struct gp_file_head, state) - at -
				    sizeof(none));
	for (unsigned i = 1; i <= 3; i++) {
		make_file(dir, INT32_MAX, i, &head);
		make_file(dir, INT32_MAX - 1, i, NULL);
	}
	gp_runtime_dir_sweep(dir, &self, 2, UINT64_MAX);
	assert_int_equal(count_files(dir), 1 + 3 + 2);
	self.pid_ns = head.pid_ns; /* as they see it there */
	gp_runtime_dir_sweep(dir, &self, 2, UINT64_MAX);
	assert_int_equal(count_files(dir), 1 + 2);
	close(fd);
	close(dir);
}

static void test_crc(void **state)
{
	(void)state;
	assert_int_equal(gp_crc32(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(gp_crc32(gp_crc32(0, "1234", 4), "56789", 5),
			 0xcbf43926);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_zombie),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_ring_threads),
		cmocka_unit_test(test_ledger),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_damaged_header),
		cmocka_unit_test(test_sweep_of_reused_numbers),
		cmocka_unit_test(test_sweep_from_elsewhere),
		cmocka_unit_test(test_crc),
	};

	return cmocka_run_group_tests(tests, start_file, remove_all);
}
