/*
 * Streams as vector clocks: what is ordered behind what, and who knows it.
 *
 * A clock says of every stream how many of its submissions are before a point.
 * Each stream has two: one with the waits that the pool put, one as the same
 * program would have with a cuMemFree that waits for everything. A submission
 * must not have less order than that for what the program may rely on, and
 * never more. The model implements the streams of pool/driver.h and nothing
 * else of it; work completes when somebody asks, by chance, or waits.
 *
 * Thread-safe. The first rule that was broken is kept as a sentence.
 */
#ifndef GP_TESTS_ORDER_MODEL_H
#define GP_TESTS_ORDER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/driver.h"

#define OM_STREAMS 192u /* ever made, those of threads among them */
#define OM_RANGES  24u

struct om;

/* Never NULL. `driver` is what the order is given. */
struct om *om_create(uint64_t seed, struct gp_driver *driver);
void om_destroy(struct om *om);

const char *om_error(struct om *om);

/* A stream of the program; its handle. 0: there have been too many. */
uint64_t om_stream(struct om *om, bool blocking);
void om_stream_gone(struct om *om, uint64_t stream);

/* The program's own calls, as the driver sees them. `thread`: a number below
 * 16 that the calling thread says it is. */
void om_thread(unsigned thread);
/* Work of `tenant` on a range. Judged here. */
void om_submit(struct om *om, uint64_t stream, unsigned range, uint64_t tenant);
/* The last submission's result is for the host. */
void om_host_result(struct om *om, uint64_t stream);
void om_sync_stream(struct om *om, uint64_t stream);
bool om_query_stream(struct om *om, uint64_t stream);
void om_sync_all(struct om *om);
/* The program's own events. */
unsigned om_event(struct om *om);
void om_record(struct om *om, unsigned event, uint64_t stream);
void om_wait(struct om *om, uint64_t stream, unsigned event);
void om_event_sync(struct om *om, unsigned event);

void om_capture(struct om *om, uint64_t stream, bool on);

/* A full free is about to happen; and has: results are the host's now. */
void om_free_begins(struct om *om);
void om_free_ended(struct om *om);
/* A free that orders nothing but its own block. */
void om_free_own(struct om *om);

/* A range is unmapped: nothing may use it any more. */
void om_unmap(struct om *om, unsigned range);

/* Whether submissions are also judged by what other data may rely on, and by
 * whether they have too much order. Exact only while threads take turns. */
void om_judge_all(struct om *om, bool on);

#endif
