/*
 * What one process asks of another: small files in the runtime directory.
 *
 * Who asks writes a request file, whose name says from whom and to whom, and
 * rings the other's bell (bell.h). That one's own thread finds it, does what is
 * asked and writes the answer into the same file, which the first one, who has
 * been looking, removes. Each file has one writer at a time and nothing is
 * locked: whoever dies leaves a file that the other, or the next process to
 * start, removes.
 *
 *   verb [argument]       a request: one line
 *   ok|no what happened   the answer: one line
 *
 * Any thread, where nothing else is said.
 */
#ifndef GP_STATS_REQUESTS_H
#define GP_STATS_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/process_file.h"

#define GP_REQUEST_TEXT 480u

/* A request that was sent. */
struct gp_request {
	char name[128];
	int fd; /* of the request; -1: none */
};

/* Asks the process of that file, whose header is at hand. `serial` tells
 * requests of this process apart. 0 or -errno. */
int gp_request_send(int dir, int target, const struct gp_file_head *head,
		    const struct gp_process_id *self, uint32_t serial,
		    const char *text, struct gp_request *request);

/* Has the answer come? Its length, into answer[GP_REQUEST_TEXT]; 0: not yet. */
unsigned gp_request_answered(const struct gp_request *request, char *answer);

/* Takes the request back, answered or not. */
void gp_request_end(int dir, struct gp_request *request);

/* Answers every request to this process: `serve` gets the text, and writes the
 * answer (GP_REQUEST_TEXT bytes). Requests of processes that are gone are
 * removed unanswered. Returns their number. One thread at a time. */
unsigned gp_requests_serve(int dir, const struct gp_process_id *self,
			   void (*serve)(const char *text, char *answer));

/* If `name` is a request: true, and it is removed if one side of it is gone. */
bool gp_request_sweep(int dir, const char *name,
		      const struct gp_process_id *self);

#endif
