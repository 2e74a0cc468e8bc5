/*
 * Descriptors handed from process to process: sockets in the runtime directory.
 *
 * Who has something to give listens on ipc-PID-START-TOKEN there; who wants it
 * connects. Only processes of the same user are spoken to, whatever the
 * directory lets in. Messages are whole (SOCK_SEQPACKET), each with up to
 * GP_HANDOFF_FDS descriptors. No call waits longer than GP_HANDOFF_MS.
 *
 * A program may close any descriptor, and get the number again for a file of
 * its own: a connection is known by its inode, too, and left alone when that is
 * another.
 *
 * All return -errno for errors and preserve errno. Any thread.
 */
#ifndef GP_STATS_HANDOFF_H
#define GP_STATS_HANDOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/process_id.h"

#define GP_HANDOFF_FDS 64
#define GP_HANDOFF_MS  10000

struct gp_handoff_name {
	uint32_t pid;
	uint64_t start;
	uint64_t token; /* tells sockets of one process apart: exec makes one */
};

struct gp_handoff {
	int fd;         /* -1: none */
	uint64_t inode; /* of the socket */
};

/* Listens, in that directory. */
int gp_handoff_listen(const char *dir, const struct gp_handoff_name *name,
		      struct gp_handoff *made);

/* The next who connects; *peer: who it is. -EPERM: another user. */
int gp_handoff_accept(const struct gp_handoff *listener,
		      struct gp_handoff *made, struct gp_process_id *peer);

/* -ENOENT, -ECONNREFUSED: that process is gone. -EPERM: another user's. */
int gp_handoff_connect(const char *dir, const struct gp_handoff_name *name,
		       struct gp_handoff *made);

int gp_handoff_send(const struct gp_handoff *to, const void *data, size_t bytes,
		    const int *fds, size_t num_fds);

/* Returns the bytes of the message, 0: the other end was closed. fds[]: room for
 * GP_HANDOFF_FDS; close them. */
int gp_handoff_receive(const struct gp_handoff *from, void *data, size_t room,
		       int *fds, size_t *num_fds);

/* Is the descriptor still this socket? */
bool gp_handoff_is_there(const struct gp_handoff *h);

void gp_handoff_close(struct gp_handoff *h);

/* The socket's name goes. */
void gp_handoff_unlink(const char *dir, const struct gp_handoff_name *name);

/* If `name` is a socket's: true, and it is removed if its process is gone. */
bool gp_handoff_sweep(int dir, const char *name,
		      const struct gp_process_id *self);

#endif
