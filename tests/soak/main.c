/*
 * A worker of the soak: rounds of random calls by several threads, each thread
 * succeeded by another when it has had its operations. Between rounds all is
 * given back, and the simulated cards must be as empty as they were.
 *
 *   soak BOARD WORKER SEED INCARNATION ROUNDS THREADS
 *
 * It ends after ROUNDS (0: when the board says so) and prints a line for each:
 * descriptors, threads, and host memory. The environment says the rest:
 *
 *   SOAK_DEVICES, SOAK_LIMIT_MIB   of the simulator; of the settings
 *   SOAK_BARRIER=0                 frees do not wait for copies
 *   SOAK_PEERS=0, SOAK_VIRTUAL=0   devices do not reach each other; have no
 *                                  virtual memory
 *   SOAK_ENDS=1                    it does not always end in good order
 *   SOAK_ONLY=alloc,free           only these operations
 *   SOAK_ABORT=1                   what is wrong ends it by abort()
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/soak/soak.h"

struct soak soak;

/* ---- chance, and what must be ------------------------------------------------------ */

uint64_t next_random(uint64_t *rng)
{
	uint64_t x = *rng += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t rng = a ^ (b + 1) * 0xd6e8feb86659fd93;

	return next_random(&rng);
}

void wrong(struct thread *t, const char *format, ...)
{
	struct board_thread *on = &soak.board->threads[t->slot];
	va_list args;

	while (__atomic_load_n(&soak.ends, __ATOMIC_ACQUIRE))
		pause();
	flockfile(stderr);
	fprintf(stderr, "soak: worker %u.%llu, thread %u:", soak.worker,
		(unsigned long long)soak.incarnation, t->slot);
	for (unsigned i = BOARD_RECENT; i; i--)
		if (on->ops >= i)
			fprintf(stderr, " %s",
				operation_name(on->recent[(on->ops - i) %
							  BOARD_RECENT]));
	fprintf(stderr, ": ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	fflush(stderr);
	if (getenv("SOAK_ABORT"))
		abort();
	_exit(3);
}

void good(struct thread *t, CUresult rc, const char *what)
{
	if (rc != CUDA_SUCCESS)
		wrong(t, "%s: %d", what, (int)rc);
}

bool got(struct thread *t, CUresult rc, const char *what)
{
	if (rc != CUDA_ERROR_OUT_OF_MEMORY)
		good(t, rc, what);
	return rc == CUDA_SUCCESS;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static unsigned number(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)atoi(text) : otherwise;
}

static void open_board(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct board *board =
		fd < 0 ? MAP_FAILED
		       : mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
			      MAP_SHARED, fd, 0);

	if (board == MAP_FAILED)
		exit(2);
	close(fd);
	soak.all = board;
	soak.board = &board->workers[soak.worker];
	memset(soak.board->threads, 0, sizeof(soak.board->threads));
	withdraw();
	soak.board->ending = ENDS_OK;
	soak.board->pid = getpid();
}

static void round_of(struct thread *t, uint64_t round, bool last)
{
	open_lanes(t);
	/* There is none where others fill the cards and keep what they have. */
	if (soak.num_lanes)
		start_all(t, round);
	if (last && soak.worker < BOARD_WORKERS / 2 && number("SOAK_ENDS", 0) &&
	    below(t, 4)) {
		usleep((useconds_t)below(t, 200000));
		end_somehow(t);
	}
	wait_all(t);
	withdraw();
	close_lanes(t);
	check_empty(t);
	soak.board->rounds = round + 1;
	if (soak.worker < BOARD_WORKERS / 2)
		tell(round);
}

void reports(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(how, &set, NULL);
}

/* The library starts, and takes the signal, with the first call for memory. After
 * an exec that is made at once, and refused, as there is no context. */
static void await_reports(struct thread *t)
{
	CUdeviceptr p;
	sigset_t set;
	CUresult rc;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	if (!sigismember(&set, SIGUSR1))
		return;
	rc = cuMemAlloc(&p, 4);
	if (rc != CUDA_ERROR_INVALID_CONTEXT)
		wrong(t, "memory without a context: %d", (int)rc);
	reports(SIG_UNBLOCK);
}

int main(int argc, char **argv)
{
	struct thread t = {.slot = 0};

	if (argc != 7)
		return 2;
	soak.argv = argv;
	soak.worker = (unsigned)atoi(argv[2]);
	soak.seed = strtoull(argv[3], NULL, 10);
	soak.incarnation = strtoull(argv[4], NULL, 10);
	soak.rounds = (unsigned)atoi(argv[5]);
	soak.threads = (unsigned)atoi(argv[6]);
	soak.devices = number("SOAK_DEVICES", 1);
	soak.limit_mib = number("SOAK_LIMIT_MIB", 0);
	soak.barrier = number("SOAK_BARRIER", 1);
	soak.peers = number("SOAK_PEERS", 1);
	soak.virtual = number("SOAK_VIRTUAL", 1);
	choose_operations(getenv("SOAK_ONLY"));
	open_board(argv[1]);
	t.rng = mix(mix(soak.seed, soak.incarnation), 0);
	t.host = malloc(HOST_BYTES);
	beat(&t, OP_quiet);
	soak.board->threads[0].busy = 1;
	good(&t, cuInit(0), "cuInit");
	await_reports(&t);
	for (uint64_t round = 0; !soak.rounds || round < soak.rounds; round++) {
		round_of(&t, round, round + 1 == soak.rounds);
		if (__atomic_load_n(&soak.all->stop, __ATOMIC_RELAXED))
			break;
	}
	soak.board->threads[0].busy = 0;
	free(t.host);
	return 0;
}
