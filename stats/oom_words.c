/*
 * The answer to "why was this refused?", in a paragraph.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stats/format.h"
#include "stats/report.h"

#define NAMED_OTHERS 4 /* in the paragraph; the table has all */

struct words {
	char *text;
	size_t size, used;
	char numbers[8][GP_FORMAT_MAX];
	unsigned next;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *w,
						      const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(w->text + w->used, w->size - w->used, format, args);
	va_end(args);
	if (n > 0)
		w->used += (size_t)n;
	if (w->used >= w->size)
		w->used = w->size - 1;
}

/* Eight of them may be used in one call of say(). */
static const char *size_of(struct words *w, uint64_t bytes)
{
	char *number = w->numbers[w->next++ % 8];

	if (bytes == GP_UNKNOWN)
		return "an unknown amount";
	return gp_format_bytes(bytes, number, GP_FORMAT_MAX);
}

static uint64_t less(uint64_t from, uint64_t amount)
{
	return from > amount ? from - amount : 0;
}

static const struct gp_report_setting *setting(const struct gp_report *report,
					       const char *key)
{
	for (size_t i = 0; i < report->num_settings; i++)
		if (!strcmp(report->settings[i].key, key))
			return &report->settings[i];
	return NULL;
}

static bool is_given(const struct gp_report *report, const char *key)
{
	const struct gp_report_setting *found = setting(report, key);

	return found && !found->is_default;
}

static bool is(const struct gp_report *report, const char *key,
	       const char *value)
{
	const struct gp_report_setting *found = setting(report, key);

	return found && !strcmp(found->value, value);
}

/* ---- the setting that would have helped ------------------------------------------ */

/* What the card had to give when the limit refused. */
static bool card_has_it(const struct gp_report *report,
			const struct gp_oom_view *view)
{
	uint64_t room = less(view->cap, view->held);

	return view->free != GP_UNKNOWN &&
	       view->free >= less(report->oom.bytes, room);
}

static const char *limit_key(const struct gp_report *report)
{
	if (is_given(report, "memory_limit"))
		return "memory_limit";
	return is_given(report, "per_process_memory_fraction")
		       ? "per_process_memory_fraction"
		       : NULL;
}

static void higher_limit(const struct gp_report *report,
			 const struct gp_oom_view *view, struct words *w)
{
	const char *key = limit_key(report);
	const uint64_t mib = 1u << 20, piece = 2 * mib;
	uint64_t need = less(view->held, view->cached) +
			(report->oom.bytes + piece - 1) / piece * piece;

	if (!key || !card_has_it(report, view) || view->total == GP_UNKNOWN)
		return;
	/* Rounded up, so that it is enough. */
	need = (need + mib - 1) / mib;
	if (!strcmp(key, "memory_limit"))
		say(w, "%s:%lluMiB", key, (unsigned long long)need);
	else
		say(w, "%s:%.2f", key,
		    (double)(need * mib) / (double)view->total + 0.005);
}

static uint64_t cached_by_others(const struct gp_oom *oom)
{
	uint64_t cached = 0;

	for (size_t i = 0; i < oom->num_others; i++)
		cached += oom->others[i].cached;
	return cached;
}

static void find_setting(const struct gp_report *report,
			 const struct gp_oom_view *view, struct words *w)
{
	const struct gp_oom *oom = &report->oom;
	uint64_t rounding = less(view->allocated, view->requested);
	uint64_t there =
		(view->free == GP_UNKNOWN ? 0 : view->free) + view->cached;

	switch (view->cause) {
	case GP_OOM_OVER_LIMIT:
	case GP_OOM_LIMIT:
		higher_limit(report, view, w);
		return;
	case GP_OOM_FRAGMENTED:
		if (view->could_remap)
			say(w, "expandable_segments:True");
		return;
	case GP_OOM_OTHERS:
		if (is(report, "neighbour_wait", "0") &&
		    cached_by_others(oom) >= less(oom->bytes, there))
			say(w, "neighbour_wait:200");
		return;
	case GP_OOM_LIVE:
		if (is_given(report, "roundup_power2_divisions") &&
		    rounding >= less(oom->bytes, there))
			say(w, "roundup_power2_divisions:off");
		return;
	default:
		return;
	}
}

void gp_oom_setting(const struct gp_report *report,
		    const struct gp_oom_view *view, char *text, size_t size)
{
	struct words w = {.text = text, .size = size};

	text[0] = '\0';
	find_setting(report, view, &w);
}

/* ---- each answer ------------------------------------------------------------------- */

/* "3.00 GiB of managed memory, 2.00 GiB of arrays"; nothing without a ledger. */
static void say_outside(const struct gp_oom_view *view, struct words *w)
{
	const char *between = "";

	for (int i = 0; view->limit && i < GP_PART_NUM; i++) {
		if (i == GP_PART_pool || i == GP_PART_context ||
		    !view->limit->part[i])
			continue;
		say(w, "%s%s %s", between, size_of(w, view->limit->part[i]),
		    gp_limit_part_help((enum gp_limit_part)i));
		between = ", ";
	}
}

static void say_cached(const struct gp_oom_view *view, struct words *w)
{
	say(w, "%s cached in %llu piece%s, the largest %s",
	    size_of(w, view->cached), (unsigned long long)view->pieces,
	    view->pieces == 1 ? "" : "s", size_of(w, view->largest));
}

static void over_limit(const struct gp_report *report,
		       const struct gp_oom_view *view, struct words *w)
{
	const char *key = limit_key(report);

	say(w,
	    ", where this process may take %s: the request alone exceeds its "
	    "limit (%s).",
	    size_of(w, view->cap), key ? key : "set while it ran");
}

static void limit(const struct gp_report *report,
		  const struct gp_oom_view *view, struct words *w)
{
	const char *key = limit_key(report);

	say(w,
	    ": the limit of this process (%s) left no room for it. It may "
	    "take %s and holds %s: %s live in the pool",
	    key ? key : "set while it ran", size_of(w, view->cap),
	    size_of(w, view->limit->held), size_of(w, view->allocated));
	if (view->cached) {
		say(w, ", ");
		say_cached(view, w);
	}
	if (view->outside) {
		say(w, ", outside it ");
		say_outside(view, w);
	}
	if (view->context)
		say(w, ", %s for contexts", size_of(w, view->context));
	say(w, ".");
	if (view->free == GP_UNKNOWN)
		return;
	say(w, " The card itself was not asked; it has %s free%s.",
	    size_of(w, view->free),
	    card_has_it(report, view) ? "" : ", which would not do either");
}

static void fragmented(const struct gp_report *report,
		       const struct gp_oom_view *view, struct words *w)
{
	say(w, ": there is that much, but in pieces. ");
	if (report->oom.by_limit)
		say(w, "%s under the limit",
		    size_of(w, less(view->cap, view->limit->held)));
	else
		say(w, "%s free on the card", size_of(w, view->free));
	say(w, ", and ");
	say_cached(view, w);
	say(w, ": fragmentation. ");
	if (view->no_remap)
		say(w, "Remapping was off because %s.", view->no_remap);
	else
		say(w, "Remapping was on, but the pieces lie beside live "
		       "memory in the same physical handles, and cannot be "
		       "joined.");
}

static void others(const struct gp_report *report,
		   const struct gp_oom_view *view, struct words *w)
{
	const struct gp_oom *oom = &report->oom;
	uint64_t cached = cached_by_others(oom);

	say(w, ": other processes%s hold %s of the card's %s",
	    view->others_mixed ? " (and contexts of this one)" : "",
	    size_of(w, view->others), size_of(w, view->total));
	for (size_t i = 0; i < oom->num_others && i < NAMED_OTHERS; i++) {
		const struct gp_oom_other *other = &oom->others[i];

		say(w, "%s pid %u", i ? ";" : ":", other->pid);
		if (other->name[0])
			say(w, " (%s)", other->name);
		if (other->bytes != GP_UNKNOWN)
			say(w, " %s", size_of(w, other->bytes));
	}
	say(w, "%s.", oom->num_others > NAMED_OTHERS ? "; and more" : "");
	if (!oom->num_others)
		say(w, " Which they are cannot be seen from here.");
	say(w,
	    " This process has %s live in the pool, %s cached, %s outside "
	    "it; %s are free.",
	    size_of(w, view->allocated), size_of(w, view->cached),
	    size_of(w, view->outside), size_of(w, view->free));
	if (cached >= 1u << 20)
		say(w, " Of what they hold, %s are only cached.",
		    size_of(w, cached));
}

static void outside(const struct gp_oom_view *view, struct words *w)
{
	say(w,
	    ": this process holds %s of the card's %s outside the pool, "
	    "where it cannot be cached or moved: ",
	    size_of(w, view->outside), size_of(w, view->total));
	say_outside(view, w);
	say(w, ". The pool has %s live and %s cached; %s are free.",
	    size_of(w, view->allocated), size_of(w, view->cached),
	    size_of(w, view->free));
}

static void top_site(const struct gp_report *report, struct words *w)
{
	const struct gp_site_row *site = &report->sites[0];
	struct gp_frame_text at;

	if (!report->has_sites) {
		say(w, " stacks:sample tells which lines hold it.");
		return;
	}
	if (!report->num_sites || !site->stack.python)
		return;
	gp_frame_look_up(site->stack.frames[0], &at);
	if (at.line)
		say(w,
		    " Most of it, %s in %llu allocation%s, comes from "
		    "%s:%llu in %s.",
		    size_of(w, site->bytes), (unsigned long long)site->blocks,
		    site->blocks == 1 ? "" : "s", at.file,
		    (unsigned long long)at.line, at.function);
}

static void live(const struct gp_report *report, const struct gp_oom_view *view,
		 struct words *w)
{
	uint64_t num = 0;

	for (size_t i = 0; i < report->num_pools; i++)
		if (report->pools[i].device == report->oom.device)
			num += report->pools[i].stats.allocation.current;
	say(w,
	    ": the program itself holds %s live, in %llu allocation%s. That "
	    "is no matter of the allocator: of the card's %s, %s are free "
	    "and %s cached.",
	    size_of(w, view->allocated), (unsigned long long)num,
	    num == 1 ? "" : "s", size_of(w, view->total),
	    size_of(w, view->free), size_of(w, view->cached));
	top_site(report, w);
	if (report->program_caches)
		say(w, " Live is here also what PyTorch keeps in its own "
		       "cache.");
}

static void hints(const struct gp_report *report,
		  const struct gp_oom_view *view, struct words *w)
{
	const struct gp_oom *oom = &report->oom;
	char text[128];

	gp_oom_setting(report, view, text, sizeof(text));
	if (text[0])
		say(w, " %s would have helped.", text);
	if (oom->roomy_device >= 0)
		say(w, " Device %d has %s free.", oom->roomy_device,
		    size_of(w, oom->roomy_free));
}

void gp_oom_answer(const struct gp_report *report,
		   const struct gp_oom_view *view, char *text, size_t size)
{
	struct words words = {.text = text, .size = size}, *w = &words;
	const struct gp_oom *oom = &report->oom;

	say(w, "%s asked for %s on device %d", oom->call,
	    size_of(w, oom->bytes), oom->device);
	switch (view->cause) {
	case GP_OOM_OVER_DEVICE:
		say(w,
		    ", a card of %s: no setting helps, the request alone "
		    "exceeds the card.",
		    size_of(w, view->total));
		break;
	case GP_OOM_BAD_LIMIT:
		say(w, ": this process gets no device memory, because its "
		       "limit cannot be read, or is nothing.");
		break;
	case GP_OOM_OVER_LIMIT:
		over_limit(report, view, w);
		break;
	case GP_OOM_LIMIT:
		limit(report, view, w);
		break;
	case GP_OOM_FRAGMENTED:
		fragmented(report, view, w);
		break;
	case GP_OOM_OTHERS:
		others(report, view, w);
		break;
	case GP_OOM_OUTSIDE:
		outside(view, w);
		break;
	case GP_OOM_LIVE:
		live(report, view, w);
		break;
	case GP_OOM_DRIVER:
		say(w,
		    ": %s free and %s cached would be enough, and the "
		    "driver refused all the same.",
		    size_of(w, view->free), size_of(w, view->cached));
		break;
	case GP_OOM_UNKNOWN:
		say(w, ": how much memory the device has free could not be "
		       "asked.");
		break;
	}
	hints(report, view, w);
}
