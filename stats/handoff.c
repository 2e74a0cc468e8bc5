/* Descriptors from process to process; see handoff.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stats/handoff.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "stats/runtime_dir.h"

#define BACKLOG   64
#define NAME_ROOM 64

/* ---- names ----------------------------------------------------------------------- */

static void print_name(const struct gp_handoff_name *name, char *text)
{
	snprintf(text, NAME_ROOM, "ipc-%u-%llu-%016llx", name->pid,
		 (unsigned long long)name->start,
		 (unsigned long long)name->token);
}

static bool read_name(const char *text, struct gp_handoff_name *name)
{
	unsigned long long start, token;
	char again[NAME_ROOM];

	if (strncmp(text, "ipc-", 4) != 0 ||
	    sscanf(text, "ipc-%9u-%20llu-%16llx", &name->pid, &start, &token) !=
		    3)
		return false;
	name->start = start;
	name->token = token;
	print_name(name, again);
	return !strcmp(text, again);
}

/* A socket's path has little room: a long one goes through the directory's
 * descriptor. */
static int print_address(const char *path, int dir,
			 const struct gp_handoff_name *name,
			 struct sockaddr_un *address)
{
	char text[NAME_ROOM];
	int n;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	print_name(name, text);
	n = snprintf(address->sun_path, sizeof(address->sun_path), "%s/%s",
		     path, text);
	if (n >= (int)sizeof(address->sun_path))
		n = snprintf(address->sun_path, sizeof(address->sun_path),
			     "/proc/self/fd/%d/%s", dir, text);
	return n < (int)sizeof(address->sun_path) ? 0 : -ENAMETOOLONG;
}

bool gp_handoff_sweep(int dir, const char *text,
		      const struct gp_process_id *self)
{
	struct gp_process_id id = *self;
	struct gp_handoff_name name;

	if (!read_name(text, &name))
		return false;
	id.pid = name.pid;
	id.start = name.start;
	if (gp_process_life(&id, self) == GP_DEAD)
		unlinkat(dir, text, 0);
	return true;
}

void gp_handoff_unlink(const char *path, const struct gp_handoff_name *name)
{
	int saved = errno;
	int dir = gp_runtime_dir_reopen(path);
	char text[NAME_ROOM];

	if (dir >= 0) {
		print_name(name, text);
		unlinkat(dir, text, 0);
		close(dir);
	}
	errno = saved;
}

/* ---- sockets ---------------------------------------------------------------------- */

static bool inode_of(int fd, uint64_t *inode)
{
	struct stat info;

	if (fstat(fd, &info) || !S_ISSOCK(info.st_mode))
		return false;
	*inode = info.st_ino;
	return true;
}

bool gp_handoff_is_there(const struct gp_handoff *h)
{
	int saved = errno;
	uint64_t inode;
	bool is = h->fd >= 0 && inode_of(h->fd, &inode) && inode == h->inode;

	errno = saved;
	return is;
}

void gp_handoff_close(struct gp_handoff *h)
{
	int saved = errno;

	if (gp_handoff_is_there(h))
		close(h->fd);
	h->fd = -1;
	errno = saved;
}

/* Nobody may hold the other side up for ever. */
static int limit_waits(int fd)
{
	const struct timeval limit = {.tv_sec = GP_HANDOFF_MS / 1000};

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)))
		return -errno;
	return 0;
}

static int check_peer(int fd, struct gp_process_id *peer)
{
	socklen_t size = sizeof(struct ucred);
	struct ucred who;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size))
		return -errno;
	if (who.uid != geteuid())
		return -EPERM;
	gp_process_self(peer);
	peer->pid = (uint32_t)who.pid;
	peer->start = gp_process_start(peer->pid);
	return 0;
}

/* Takes the descriptor, or closes it. */
static int keep(int fd, int rc, struct gp_handoff *made)
{
	made->fd = -1;
	if (!rc && !inode_of(fd, &made->inode))
		rc = -EBADF;
	if (rc)
		close(fd);
	else
		made->fd = fd;
	return rc;
}

static int open_at(const char *path, const struct gp_handoff_name *name,
		   bool listens, struct gp_handoff *made)
{
	int saved = errno;
	int dir = gp_runtime_dir_reopen(path);
	struct sockaddr_un address;
	struct gp_process_id peer;
	int fd, rc;

	if (dir < 0)
		return dir;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	rc = fd < 0 ? -errno : print_address(path, dir, name, &address);
	if (fd >= 0 && !rc && !listens)
		rc = limit_waits(fd);
	if (fd >= 0 && !rc &&
	    (listens ? bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
			       listen(fd, BACKLOG)
		     : connect(fd, (struct sockaddr *)&address,
			       sizeof(address))))
		rc = -errno;
	if (fd >= 0 && !rc && !listens)
		rc = check_peer(fd, &peer);
	if (fd >= 0)
		rc = keep(fd, rc, made);
	close(dir);
	errno = saved;
	return rc;
}

int gp_handoff_listen(const char *path, const struct gp_handoff_name *name,
		      struct gp_handoff *made)
{
	return open_at(path, name, true, made);
}

int gp_handoff_connect(const char *path, const struct gp_handoff_name *name,
		       struct gp_handoff *made)
{
	return open_at(path, name, false, made);
}

int gp_handoff_accept(const struct gp_handoff *listener,
		      struct gp_handoff *made, struct gp_process_id *peer)
{
	int saved = errno;
	int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
	int rc = fd < 0 ? -errno : limit_waits(fd);

	if (fd >= 0) {
		if (!rc)
			rc = check_peer(fd, peer);
		rc = keep(fd, rc, made);
	}
	errno = saved;
	return rc;
}

/* ---- messages ---------------------------------------------------------------------- */

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(GP_HANDOFF_FDS * sizeof(int))];
};

int gp_handoff_send(const struct gp_handoff *to, const void *data, size_t bytes,
		    const int *fds, size_t num_fds)
{
	union control control;
	struct iovec part = {.iov_base = (void *)(uintptr_t)data,
			     .iov_len = bytes};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	int saved = errno;
	ssize_t n;

	if (num_fds > GP_HANDOFF_FDS)
		return -E2BIG;
	memset(&control, 0, sizeof(control));
	if (num_fds) {
		struct cmsghdr *header;

		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
		memcpy(CMSG_DATA(header), fds, num_fds * sizeof(int));
	}
	do
		n = sendmsg(to->fd, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		n = -errno;
	errno = saved;
	return n < 0 ? (int)n : (size_t)n == bytes ? 0 : -EIO;
}

static void take_fds(struct msghdr *message, int *fds, size_t *num_fds)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
	     header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET ||
		    header->cmsg_type != SCM_RIGHTS)
			continue;
		*num_fds = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(header), *num_fds * sizeof(int));
	}
}

int gp_handoff_receive(const struct gp_handoff *from, void *data, size_t room,
		       int *fds, size_t *num_fds)
{
	union control control;
	struct iovec part = {.iov_base = data, .iov_len = room};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	int saved = errno;
	ssize_t n;

	*num_fds = 0;
	do
		n = recvmsg(from->fd, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		n = -errno;
	else
		take_fds(&message, fds, num_fds);
	if (n >= 0 && message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		/* No room for more descriptors, or no message of ours. */
		for (size_t i = 0; i < *num_fds; i++)
			close(fds[i]);
		*num_fds = 0;
		n = -EMFILE;
	}
	errno = saved;
	return (int)n;
}
