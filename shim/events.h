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
	uint64_t record; /* which one; 0: which one holds is not known */
	struct gp_order *order;
	unsigned order_serial; /* the same one only if this is the same */
	struct gp_slot *slot;  /* of the thread that recorded */
	uint64_t serial;       /* of the stream */
	uint64_t finished;     /* the slot's submissions before it */
	unsigned generation;   /* of contexts: none has gone since */
};

/* All are thread-safe. Before the driver records the event: until the end nobody
 * knows what it stands for. Returns the record, for gp_event_recorded(); 0: no
 * host memory, the event is not known then. */
uint64_t gp_event_records(CUevent event);
/* After it did. Of records that overlap nobody knows which one holds. NULL: in
 * no place that is known, as in a capture. */
void gp_event_recorded(CUevent event, uint64_t record,
		       const struct gp_recorded *where);
/* After a record that failed, or was not of one stream: what the event stands
 * for is in the context that it was in, and no more is known. */
void gp_event_unplaced(CUevent event, uint64_t record);
/* False: not known. What is to be true of the event over a time is true if the
 * same record was found before and after. */
bool gp_event_look(CUevent event, struct gp_recorded *where);
/* From now on something that is not seen may record it, as a graph's launch or
 * another process: which record holds is not known any more. `where`: in which
 * context at least; NULL: as before. */
void gp_event_loosen(CUevent event, const struct gp_recorded *where);
/* Before the event is destroyed. */
void gp_event_forget(CUevent event);

#endif
