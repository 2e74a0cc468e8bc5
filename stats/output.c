#include <errno.h>
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

int gp_write_all(int fd, const void *data, size_t size)
{
	const int saved_errno = errno;
	sigset_t ours, before, pending;
	int error;

	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	sigemptyset(&pending);
	/* Both are sent to the thread that wrote, at once. */
	pthread_sigmask(SIG_BLOCK, &ours, &before);
	sigpending(&pending);
	error = write_all(fd, data, size);
	if (error == -EPIPE && !sigismember(&pending, SIGPIPE))
		swallow(SIGPIPE);
	if (error == -EFBIG && !sigismember(&pending, SIGXFSZ))
		swallow(SIGXFSZ);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = saved_errno;
	return error;
}
