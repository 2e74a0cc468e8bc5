/* The ring of marks and their events; see marks.h. */
#include "pool/marks.h"

#include <stddef.h>

void gp_marks_init(struct gp_marks *marks)
{
	*marks = (struct gp_marks){0};
	gp_objects_init(&marks->events, sizeof(struct gp_event));
	gp_objects_init(&marks->parts, sizeof(struct gp_part));
}

void gp_marks_exit(struct gp_marks *marks)
{
	gp_objects_exit(&marks->events);
	gp_objects_exit(&marks->parts);
	*marks = (struct gp_marks){0};
}

/* ---- events ------------------------------------------------------------------ */

struct gp_event *gp_event_get(struct gp_marks *marks,
			      const struct gp_driver *driver)
{
	struct gp_event *e = marks->spare;

	if (e) {
		marks->spare = e->next;
	} else {
		if (gp_objects_reserve(&marks->events, 1))
			return NULL;
		e = gp_objects_get(&marks->events);
		if (driver->streams->event_create(driver->dev, &e->id)) {
			gp_objects_put(&marks->events, e);
			return NULL;
		}
	}
	e->refs = 1;
	e->next = NULL;
	return e;
}

void gp_event_put(struct gp_marks *marks, struct gp_event *event)
{
	if (!event || --event->refs)
		return;
	event->next = marks->spare;
	marks->spare = event;
}

/* ---- parts -------------------------------------------------------------------- */

struct gp_part *gp_part_new(struct gp_marks *marks, struct gp_stream *stream)
{
	struct gp_part *part;

	if (gp_objects_reserve(&marks->parts, 1))
		return NULL;
	part = gp_objects_get(&marks->parts);
	*part = (struct gp_part){.stream = stream, .serial = stream->serial};
	for (struct gp_slot *slot = stream->slots; slot; slot = slot->next) {
		uint64_t finished = gp_slot_finished(slot);

		if (part->num_seen == GP_PART_SEEN)
			break; /* those drain some other way */
		if (finished ==
		    __atomic_load_n(&slot->drained, __ATOMIC_RELAXED))
			continue;
		part->seen[part->num_seen].slot = slot;
		part->seen[part->num_seen++].finished = finished;
	}
	return part;
}

static void part_free(struct gp_marks *marks, struct gp_part *part)
{
	gp_event_put(marks, part->event);
	gp_objects_put(&marks->parts, part);
}

void gp_parts_free(struct gp_marks *marks, struct gp_part *parts)
{
	while (parts) {
		struct gp_part *next = parts->next;

		part_free(marks, parts);
		parts = next;
	}
}

/* Its event is complete. A stream that is gone has no slots to drain. */
static void part_complete(struct gp_marks *marks, struct gp_part *part)
{
	if (part->stream->serial == part->serial)
		for (unsigned i = 0; i < part->num_seen; i++)
			gp_slot_drain(part->seen[i].slot,
				      part->seen[i].finished);
	part_free(marks, part);
}

/* ---- the ring ----------------------------------------------------------------- */

void gp_marks_clear(struct gp_marks *marks)
{
	for (; marks->count; marks->count--) {
		struct gp_mark *mark = gp_marks_at(marks, 0);

		gp_parts_free(marks, mark->parts);
		marks->first = (marks->first + 1) % GP_MARKS;
	}
}

void gp_marks_push(struct gp_marks *marks, uint64_t number,
		   struct gp_part *parts)
{
	struct gp_mark *mark;

	if (!parts) {
		gp_marks_clear(marks);
		return;
	}
	if (marks->count == GP_MARKS) {
		/* The new one covers the newest, and the oldest keeps the
		 * event that will complete first. */
		mark = gp_marks_at(marks, GP_MARKS - 1);
		gp_parts_free(marks, mark->parts);
	} else {
		mark = gp_marks_at(marks, marks->count++);
	}
	*mark = (struct gp_mark){.number = number, .parts = parts};
}

struct gp_mark *gp_marks_from(struct gp_marks *marks, uint64_t number)
{
	unsigned i = marks->count;

	/* What is asked for is mostly the newest. */
	while (i && gp_marks_at(marks, i - 1)->number >= number)
		i--;
	return i < marks->count ? gp_marks_at(marks, i) : NULL;
}

/* Complete parts leave; true when none is left. */
static bool complete(struct gp_marks *marks, struct gp_mark *mark,
		     const struct gp_driver *driver)
{
	struct gp_part *part;

	while ((part = mark->parts)) {
		if (driver->streams->query(driver->dev, part->event->id))
			return false;
		mark->parts = part->next;
		part_complete(marks, part);
		if (!GP_HOLDS(DONE_MEANS_COMPLETE))
			break;
	}
	return true;
}

/* The `n` oldest are complete. The highest of their numbers; 0 of none. */
static uint64_t drop_oldest(struct gp_marks *marks, unsigned n)
{
	uint64_t number = n ? gp_marks_at(marks, n - 1)->number : 0;

	for (; n; n--) {
		gp_parts_free(marks, gp_marks_at(marks, 0)->parts);
		marks->first = (marks->first + 1) % GP_MARKS;
		marks->count--;
	}
	return number;
}

uint64_t gp_marks_poll(struct gp_marks *marks, const struct gp_driver *driver,
		       unsigned stride, bool exact)
{
	unsigned known = 0;

	for (; stride; stride = exact ? stride / 2 : 0)
		while (known + stride <= marks->count &&
		       complete(marks, gp_marks_at(marks, known + stride - 1),
				driver))
			known += stride; /* [8]: all before it, too */
	return drop_oldest(marks, known);
}

static bool among(const struct gp_event *event, struct gp_event *const *events,
		  unsigned n)
{
	while (n--)
		if (events[n] == event)
			return true;
	return false;
}

uint64_t gp_marks_prove(struct gp_marks *marks, uint64_t number,
			struct gp_event *const *events, unsigned n)
{
	struct gp_mark *mark = gp_marks_from(marks, number);
	struct gp_part **link;

	if (!mark || mark->number != number)
		return 0; /* complete already, or made anew */
	link = &mark->parts;
	while (*link) {
		struct gp_part *part = *link;

		if (!among(part->event, events, n)) {
			link = &part->next;
			continue;
		}
		*link = part->next;
		part_complete(marks, part);
	}
	if (mark->parts)
		return 0;
	return drop_oldest(marks, 1 + (unsigned)(mark - marks->ring -
						 marks->first + GP_MARKS) %
						  GP_MARKS);
}
