/* Clocks of streams, of the host, and of the program's frees; see oracle.h. */
#include "tests/sim/oracle.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/gpusim.h"

/* Contexts whose frees are watched. */
#define DOMAINS 4

/* A context's. Guarded by sim.lock, as all here. */
struct sim_domain {
	unsigned number;
	struct sim_clock returned; /* work whose call has returned */
	struct sim_clock barrier;  /* what frees that returned stand behind */
	struct sim_clock may;      /* what plain work may be behind by frees */
	unsigned freeing;          /* frees under way */
	uint64_t freed;            /* frees that returned */
};

static struct sim_strand *strands[SIM_STRANDS];
static unsigned num_strands;
static struct sim_clock host; /* known complete */
static uint64_t moments;      /* calls of the program that returned */
static struct sim_domain *domains[DOMAINS];
static unsigned num_domains;

/* Work that the host may look at and that is not known complete. */
static const struct sim_past **shown;
static size_t num_shown, room_shown;

/* The call that a thread of the program is in, else NULL. Thread-local data is
 * part of a thread's stack, and some are small. */
#define CALL_WORK 8
struct call {
	enum gpusim_call kind;
	struct sim_domain *domain;
	/* Of each domain when it began: what work there has to be behind. */
	struct sim_clock behind[DOMAINS];
	uint64_t freed[DOMAINS];
	struct sim_clock frees; /* a free: what it stands behind */
	uint64_t moment;        /* when it began */
	unsigned n;
	struct sim_past *work[CALL_WORK];
};
static __thread struct call *call;

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

/* ---- clocks -------------------------------------------------------------------- */

static void join(struct sim_clock *to, const struct sim_clock *from)
{
	for (unsigned i = 0; i < num_strands; i++)
		if (from->at[i] > to->at[i])
			to->at[i] = from->at[i];
}

static void join_past(struct sim_clock *to, const uint32_t *from,
		      unsigned width)
{
	for (unsigned i = 0; i < width; i++)
		if (from[i] > to->at[i])
			to->at[i] = from[i];
}

static uint32_t *keep(const struct sim_clock *clock)
{
	uint32_t *at = must(malloc(num_strands * sizeof(*at)));

	memcpy(at, clock->at, num_strands * sizeof(*at));
	return at;
}

/* All the context was given so far, and what that is behind: of another one,
 * copies that visit. */
static void join_reached(struct sim_clock *to, const struct sim_ctx *ctx)
{
	for (unsigned i = 0; i < num_strands; i++) {
		if (strands[i]->ctx != ctx)
			continue;
		if (strands[i]->last > to->at[i])
			to->at[i] = strands[i]->last;
		join(to, &strands[i]->plain);
	}
}

static struct sim_domain *domain_of(struct sim_ctx *ctx)
{
	if (ctx->domain)
		return ctx->domain;
	if (num_domains == DOMAINS)
		sim_oracle_object(NULL, NULL,
				  "more contexts than it can count");
	ctx->domain = must(calloc(1, sizeof(*ctx->domain)));
	ctx->domain->number = num_domains;
	domains[num_domains++] = ctx->domain;
	return ctx->domain;
}

static struct sim_strand *strand_of(struct sim_stream *stream)
{
	struct sim_strand *strand = stream->strand;

	if (strand)
		return strand;
	if (num_strands == SIM_STRANDS)
		sim_oracle_object(NULL, NULL, "more streams than it can count");
	strand = stream->strand = must(calloc(1, sizeof(*strand)));
	strand->number = num_strands;
	strand->stream = stream->id;
	strand->ctx = stream->ctx;
	strand->legacy = stream->legacy;
	strand->blocking = !(stream->flags & CU_STREAM_NON_BLOCKING);
	strands[num_strands++] = strand;
	return strand;
}

const struct sim_strand *sim_oracle_strand(unsigned number)
{
	return strands[number];
}

bool sim_oracle_known(const struct sim_past *past)
{
	return past->number <= host.at[past->strand];
}

/* ---- submissions ------------------------------------------------------------------ */

static bool does_something(enum sim_work_kind kind)
{
	return kind != SIM_W_MARK && kind != SIM_W_WAIT && kind != SIM_W_FREE;
}

/* The default stream's rules, and the sweeper's. */
static void join_rules(const struct sim_stream *stream,
		       const struct sim_strand *self, struct sim_clock *order,
		       struct sim_clock *plain) /* each may be NULL */
{
	for (unsigned i = 0; i < num_strands; i++) {
		const struct sim_strand *s = strands[i];

		if (s == self || s->ctx != self->ctx ||
		    !(stream->sweeper || (self->legacy && s->blocking) ||
		      (self->blocking && s->legacy)))
			continue;
		if (order)
			join(order, &s->order);
		if (plain)
			join(plain, &s->plain);
	}
}

/* A call that began before a free returned may have come before it: then the
 * free stood behind its work as well. */
static bool may_precede_free(const struct sim_domain *domain)
{
	return domain->freeing ||
	       (call && call->freed[domain->number] != domain->freed);
}

/* What the library puts into the default stream may come with the work that
 * the program's call puts there: before it as waits, behind it as records.
 * The program's own work could have been in its place. */
static bool stands_for_call(const struct sim_strand *strand,
			    enum sim_work_kind kind)
{
	if (!strand->legacy || !call)
		return false;
	if (kind == SIM_W_WAIT)
		return true;
	for (unsigned i = 0; i < call->n; i++)
		if (call->work[i]->strand == strand->number)
			return true;
	return false;
}

/* As the context's own work, or work that visits it, has to be. */
static void check_behind(const struct sim_past *past,
			 const struct sim_domain *domain)
{
	const struct sim_clock *behind =
		call ? &call->behind[domain->number] : NULL;

	for (unsigned i = 0; behind && i < past->width; i++)
		if (past->order[i] < behind->at[i])
			sim_oracle_object(
				sim_oracle_work(i, behind->at[i]), past,
				"work is not ordered behind what a free, that "
				"returned before it was submitted, stood "
				"behind");
}

static void check(const struct sim_past *past)
{
	check_behind(past, strands[past->strand]->ctx->domain);
	for (unsigned i = 0; i < past->width; i++) {
		const struct sim_past *other;

		if (past->order[i] > past->plain[i] && !strands[i]->library) {
			other = sim_oracle_work(i, past->order[i]);
			sim_oracle_object(
				other, past,
				"work is ordered behind unfinished work that "
				"the plain program's would not be behind");
		}
	}
}

/* Frees under way may come after what there is now. */
static void reach_frees(void)
{
	struct sim_list *l;

	for (l = sim.contexts.next; l != &sim.contexts; l = l->next) {
		struct sim_ctx *ctx = sim_entry(l, struct sim_ctx, link);

		if (ctx->domain && ctx->domain->freeing)
			join_reached(&ctx->domain->may, ctx);
	}
}

/* The host waited in frees, in whichever context: whatever comes later in the
 * plain program is behind that. */
static void join_frees(struct sim_clock *plain)
{
	reach_frees();
	for (unsigned i = 0; i < num_domains; i++)
		join(plain, &domains[i]->may);
}

static void remember_shown(const struct sim_past *past)
{
	if (num_shown == room_shown) {
		room_shown = room_shown ? 2 * room_shown : 64;
		shown = must(realloc(shown, room_shown * sizeof(*shown)));
	}
	shown[num_shown++] = past;
}

/* The library records an event behind a visit; other threads' work may have come
 * between. Their calls overlap the copy's, which could have come behind them. */
static void stand_for_visit(const struct sim_stream *stream,
			    const struct sim_strand *strand)
{
	for (unsigned i = 0; call && i < call->n; i++) {
		const struct sim_past *past = call->work[i];

		for (unsigned j = 0; j < past->visited.n; j++) {
			struct sim_stream *visits = past->visited.at[j]->visits;

			if (past->strand != strand->number || !visits)
				continue;
			join(&strand_of(visits)->plain, &strand->plain);
			join_rules(stream, strand, NULL,
				   &strand_of(visits)->plain);
		}
	}
}

void sim_oracle_submit(struct sim_op *op)
{
	struct sim_stream *stream = op->stream;
	struct sim_strand *strand = strand_of(stream);
	struct sim_domain *domain = domain_of(stream->ctx);
	const struct sim_past *awaited =
		op->work.awaited ? op->work.awaited->past : NULL;
	struct sim_past *past = must(calloc(1, sizeof(*past)));
	bool does = does_something(op->work.kind);
	struct sim_uses uses = {0};
	bool library = call && call->kind == GPUSIM_ALLOCATES;

	past->kind = op->work.kind;
	past->name = op->work.kernel ? op->work.kernel->name : NULL;
	past->program = (does && !library) || op->work.program;
	if (does)
		strand->library = library;
	past->thread = sim_thread()->serial;
	past->strand = strand->number;
	past->width = num_strands;
	join(&strand->order, &host);
	join_rules(stream, strand, &strand->order,
		   past->program || stands_for_call(strand, past->kind)
			   ? &strand->plain
			   : NULL);
	if (past->program) {
		join(&strand->plain, &host);
		join_frees(&strand->plain);
	}
	if (awaited) {
		join_past(&strand->order, awaited->order, awaited->width);
		if (past->program)
			join_past(&strand->plain, awaited->plain,
				  awaited->width);
	}
	if (does) {
		past->number = ++strand->last;
		strand->order.at[strand->number] = past->number;
		strand->plain.at[strand->number] = past->number;
		sim_oracle_uses(&op->work, &uses);
		past->uses = uses.at;
		past->num_uses = uses.n;
		past->shows = uses.shows;
		if (library)
			domain->may.at[strand->number] = past->number;
	}
	/* A wait, too: what it waits for may be another context's. */
	if (past->program && may_precede_free(domain))
		join(&domain->may, &strand->plain);
	past->order = keep(&strand->order);
	past->plain = keep(&strand->plain);
	op->past = past;
	past->serial =
		sim_oracle_log(awaited ? SIM_E_WAIT : SIM_E_WORK,
			       awaited ? awaited : past, strand->number, NULL);
	if (past->program && past->kind != SIM_W_WAIT)
		check(past);
	if (past->shows)
		remember_shown(past);
	if (past->kind == SIM_W_MARK && !past->program)
		stand_for_visit(stream, strand);
	if (does && !library && call && call->n < CALL_WORK)
		call->work[call->n++] = past;
}

void sim_oracle_visit(const struct sim_op *op, const struct sim_visit *visit)
{
	struct sim_past *past = op->past;

	for (unsigned i = 0; i < visit->n; i++) {
		struct sim_domain *domain = domain_of(visit->at[i]);

		check_behind(past, domain);
		if (!visit->kept[i] && !strands[past->strand]->legacy)
			continue;
		past->visited.at[past->visited.n++] = visit->at[i];
		if (may_precede_free(domain))
			join(&domain->may, &strands[past->strand]->plain);
	}
	/* The host may look through work of the other context. */
	if (!past->shows)
		remember_shown(past);
	past->shows = true;
}

void sim_oracle_waited(struct sim_stream *stream, const struct sim_op *op,
		       bool program)
{
	struct sim_strand *strand = strand_of(stream);

	join_past(&strand->order, op->past->order, op->past->width);
	if (program) {
		/* A driver may put it there all the same. */
		join_rules(stream, strand, NULL, &strand->plain);
		join(&strand->plain, &host);
		join_frees(&strand->plain);
		join_past(&strand->plain, op->past->plain, op->past->width);
		if (may_precede_free(domain_of(stream->ctx)))
			join(&domain_of(stream->ctx)->may, &strand->plain);
	}
	sim_oracle_log(SIM_E_WAIT, op->past, strand->number, NULL);
}

/* ---- the host ------------------------------------------------------------------------ */

/* Would a free, in whichever context, have waited for that much of a strand? */
static bool covered(unsigned strand, uint32_t number)
{
	for (unsigned i = 0; i < num_domains; i++)
		if (domains[i]->may.at[strand] >= number)
			return true;
	return false;
}

/* A call that neither frees nor waits by itself may wait for what frees have
 * waited for anyway, no more. */
static void may_wait(const struct sim_past *past, const uint32_t *order,
		     unsigned width)
{
	if (!call || call->kind == GPUSIM_FREES || call->kind == GPUSIM_WAITS)
		return;
	reach_frees();
	for (unsigned i = 0; i < width; i++)
		if (order[i] > host.at[i] && strands[i]->ctx->domain &&
		    !covered(i, order[i]))
			sim_oracle_object(
				sim_oracle_work(i, order[i]), past,
				"the host waits, in a call that does not wait, "
				"for unfinished work that no free covers");
}

void sim_oracle_host_waits(const struct sim_op *op)
{
	if (op->state != SIM_DONE)
		may_wait(op->past, op->past->order, op->past->width);
}

void sim_oracle_host_knows(const struct sim_op *op)
{
	join_past(&host, op->past->order, op->past->width);
	sim_oracle_log(SIM_E_HOST, op->past, op->past->strand, NULL);
}

void sim_oracle_drain_begin(struct sim_ctx *ctx, bool blocking,
			    struct sim_clock *until)
{
	memset(until, 0, sizeof(*until));
	for (unsigned i = 0; i < num_strands; i++)
		if (strands[i]->ctx == ctx &&
		    (strands[i]->blocking || !blocking))
			join(until, &strands[i]->order);
}

void sim_oracle_drain_waits(const struct sim_clock *until)
{
	may_wait(NULL, until->at, num_strands);
}

void sim_oracle_drain_end(const struct sim_clock *until)
{
	join(&host, until);
	sim_oracle_log(SIM_E_DRAIN, NULL, SIM_NO_STRAND, NULL);
}

void sim_oracle_idle(const struct sim_stream *stream)
{
	if (stream->strand)
		join(&host, &stream->strand->order);
}

/* ---- the program's calls ---------------------------------------------------------------- */

#define GPUSIM_API __attribute__((visibility("default")))

static void begin_free(struct sim_ctx *ctx)
{
	call->frees = call->domain->returned;
	call->domain->freeing++;
	join_reached(&call->domain->may, ctx);
	sim_oracle_log(SIM_E_FREE, NULL, SIM_NO_STRAND, NULL);
}

GPUSIM_API void gpusim_call_begin(enum gpusim_call kind)
{
	struct sim_ctx *ctx = sim_current();

	if (!ctx || !sim_oracle_on())
		return;
	sim_lock();
	call = must(calloc(1, sizeof(*call)));
	call->kind = kind;
	call->domain = domain_of(ctx);
	call->moment = moments;
	for (unsigned i = 0; i < num_domains; i++) {
		call->behind[i] = domains[i]->barrier;
		call->freed[i] = domains[i]->freed;
	}
	if (kind == GPUSIM_FREES || kind == GPUSIM_FREES_OWN)
		begin_free(ctx);
	sim_unlock();
}

/* Does a free in the call's context wait for it? */
static bool concerns(const struct sim_past *past)
{
	if (strands[past->strand]->ctx->domain == call->domain)
		return true;
	for (unsigned i = 0; i < past->visited.n; i++)
		if (past->visited.at[i]->domain == call->domain)
			return true;
	return false;
}

/* What the host may look at now must be there. */
static void check_shown(void)
{
	size_t left = 0;

	for (size_t i = 0; i < num_shown; i++) {
		const struct sim_past *past = shown[i];

		if (sim_oracle_known(past))
			continue;
		if (past->returned && past->returned <= call->moment &&
		    concerns(past))
			sim_oracle_object(
				past, NULL,
				"a free returned before a result was there "
				"that the host may look at");
		shown[left++] = past;
	}
	num_shown = left;
}

static void end_free(struct sim_ctx *ctx)
{
	call->domain->freeing--;
	call->domain->freed++;
	join_reached(&call->domain->may, ctx);
	sim_oracle_log(SIM_E_FREED, NULL, SIM_NO_STRAND, NULL);
	if (call->kind == GPUSIM_FREES_OWN)
		return;
	join(&call->domain->barrier, &call->frees);
	check_shown();
}

static void returned(struct sim_domain *domain, const struct sim_past *past)
{
	uint32_t *last = &domain->returned.at[past->strand];

	if (*last < past->number)
		*last = past->number;
}

GPUSIM_API void gpusim_call_end(void)
{
	if (!call)
		return;
	sim_lock();
	moments++;
	for (unsigned i = 0; i < call->n; i++) {
		struct sim_past *past = call->work[i];

		returned(call->domain, past);
		for (unsigned j = 0; j < past->visited.n; j++)
			returned(past->visited.at[j]->domain, past);
		past->returned = moments;
	}
	if (call->kind == GPUSIM_FREES || call->kind == GPUSIM_FREES_OWN)
		end_free(sim_current());
	free(call);
	call = NULL;
	sim_unlock();
}
