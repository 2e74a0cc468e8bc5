/*
 * Where each event of the program was recorded last.
 */
#ifndef GP_SHIM_EVENTS_H
#define GP_SHIM_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/hooks.h"

struct gp_order;
struct gp_slot;

struct gp_recorded {
	struct gp_order *order;
	struct gp_slot *slot; /* of the thread that recorded */
	uint64_t serial;      /* of the stream */
	uint64_t finished;    /* the slot's submissions before it */
	unsigned generation;  /* of contexts */
};

/* Thread-safe. Without host memory an event is not known. */
void gp_event_note(CUevent event, const struct gp_recorded *where);
/* False: not known. */
bool gp_event_look(CUevent event, struct gp_recorded *where);
/* Before the event is destroyed, or when it was recorded in a capture. */
void gp_event_forget(CUevent event);

#endif
