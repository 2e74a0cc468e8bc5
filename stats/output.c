#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "stats/output.h"

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t written = write(fd, data, size);

		if (written < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (!written)
			return -EIO; /* not for a non-zero count */
		data += written;
		size -= (size_t)written;
	}
	return 0;
}

/* Takes back a signal that our own write raised while it was blocked. */
static void swallow(int signal)
{
	const struct timespec now = {0, 0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
		;
}

/* The signals that our own writing may raise are held back meanwhile. Both are
 * sent to the thread that wrote, at once. */
struct hush {
	sigset_t before, pending;
	int saved_errno;
};

static void begin(struct hush *hush)
{
	sigset_t ours;

	hush->saved_errno = errno;
	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	sigemptyset(&hush->pending);
	pthread_sigmask(SIG_BLOCK, &ours, &hush->before);
	sigpending(&hush->pending);
}

static int end(const struct hush *hush, int error)
{
	if (error == -EPIPE && !sigismember(&hush->pending, SIGPIPE))
		swallow(SIGPIPE);
	if (error == -EFBIG && !sigismember(&hush->pending, SIGXFSZ))
		swallow(SIGXFSZ);
	pthread_sigmask(SIG_SETMASK, &hush->before, NULL);
	errno = hush->saved_errno;
	return error;
}

int gp_write_all(int fd, const void *data, size_t size)
{
	struct hush hush;

	begin(&hush);
	return end(&hush, write_all(fd, data, size));
}

int gp_allocate(int fd, uint64_t size)
{
	struct hush hush;
	int error;

	begin(&hush);
	do
		error = -posix_fallocate(fd, 0, (off_t)size);
	while (error == -EINTR);
	return end(&hush, error);
}
