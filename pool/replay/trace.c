/*
 * The parser. It is strict: five fields, whole numbers, ids that exist. An id
 * may be used again once its block is free.
 */
#include "pool/replay/trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/replay/idmap.h"

#define FIELDS      5
#define MAX_BYTES   (1ull << 48) /* the address space of a device */
#define MAX_STREAMS 65536u

struct parser {
	struct gp_trace *trace;
	size_t capacity; /* of trace->ops */
	struct gp_idmap live, streams;
	uint32_t line;
	int64_t first_us, last_us;
	char *why;
	size_t why_size;
};

struct field {
	const char *at;
	size_t len;
};

static int refuse(struct parser *p, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));

static int refuse(struct parser *p, const char *format, ...)
{
	int n = snprintf(p->why, p->why_size, "line %u: ", p->line);
	va_list args;

	va_start(args, format);
	if (n >= 0 && (size_t)n < p->why_size)
		vsnprintf(p->why + n, p->why_size - (size_t)n, format, args);
	va_end(args);
	return -EINVAL;
}

static int number(struct parser *p, const struct field *f, const char *name,
		  int64_t *value)
{
	uint64_t n = 0;
	size_t i = 0;
	bool negative = f->len && f->at[0] == '-';

	if (negative)
		i++;
	if (i == f->len)
		return refuse(p, "the %s is missing", name);
	for (; i < f->len; i++) {
		unsigned digit = (unsigned)(f->at[i] - '0');

		if (digit > 9)
			return refuse(p, "the %s \"%.*s\" is not a number",
				      name, (int)(f->len < 32 ? f->len : 32),
				      f->at);
		if (n > ((uint64_t)INT64_MAX - digit) / 10)
			return refuse(p, "the %s is out of range", name);
		n = n * 10 + digit;
	}
	*value = negative ? -(int64_t)n : (int64_t)n;
	return 0;
}

/* Field 0 is the operation; more than FIELDS of them is an error too. */
static int split(struct parser *p, const char *line, size_t len,
		 struct field fields[FIELDS])
{
	const char *end = line + len;
	int count = 0;

	for (;;) {
		const char *comma = memchr(line, ',', (size_t)(end - line));
		const char *stop = comma ? comma : end;

		if (count < FIELDS) {
			fields[count].at = line;
			fields[count].len = (size_t)(stop - line);
		}
		count++;
		if (!comma)
			break;
		line = comma + 1;
	}
	if (count != FIELDS)
		return refuse(p,
			      "%d field%s, expected %d: op,id,size,stream,t_us",
			      count, count == 1 ? "" : "s", FIELDS);
	return 0;
}

static int stream_index(struct parser *p, const struct field *f,
			uint32_t *index)
{
	uint32_t next = p->trace->num_streams;
	int64_t id = 0;
	int err;

	if (f->len) {
		err = number(p, f, "stream", &id);
		if (err)
			return err;
	}
	/* One stream after the other on the same lines is the rule. */
	if (gp_idmap_get(&p->streams, (uint64_t)id, index))
		return 0;
	if (next >= MAX_STREAMS)
		return refuse(p, "more than %u streams", MAX_STREAMS);
	*index = next;
	p->trace->num_streams++;
	return gp_idmap_put(&p->streams, (uint64_t)id, next);
}

static int positive_size(struct parser *p, const struct field *f,
			 uint64_t *bytes)
{
	int64_t n = 0;
	int err = number(p, f, "size", &n);

	if (err)
		return err;
	if (n <= 0)
		return refuse(p, "the size %lld is not positive", (long long)n);
	if ((uint64_t)n > MAX_BYTES)
		return refuse(p, "the size %lld is out of range", (long long)n);
	*bytes = (uint64_t)n;
	return 0;
}

static int alloc_line(struct parser *p, const struct field *fields,
		      struct gp_trace_op *op)
{
	uint32_t block;
	int64_t id = 0;
	int err = number(p, &fields[1], "id", &id);

	if (!err)
		err = positive_size(p, &fields[2], &op->bytes);
	if (err)
		return err;
	if (gp_idmap_get(&p->live, (uint64_t)id, &block))
		return refuse(p, "block %lld is allocated already",
			      (long long)id);
	op->kind = GP_TRACE_ALLOC;
	op->block = p->trace->num_blocks++;
	return gp_idmap_put(&p->live, (uint64_t)id, op->block);
}

static int free_line(struct parser *p, const struct field *fields,
		     struct gp_trace_op *op)
{
	int64_t id = 0;
	int err = number(p, &fields[1], "id", &id);

	if (err)
		return err;
	if (!gp_idmap_take(&p->live, (uint64_t)id, &op->block))
		return refuse(p, "block %lld is not allocated", (long long)id);
	op->kind = GP_TRACE_FREE;
	return 0;
}

static int append(struct parser *p, const struct gp_trace_op *op)
{
	struct gp_trace *trace = p->trace;

	if (trace->num_ops == p->capacity) {
		size_t more = p->capacity ? 2 * p->capacity : 4096;
		void *ops = realloc(trace->ops, more * sizeof(*op));

		if (!ops)
			return -ENOMEM;
		trace->ops = ops;
		p->capacity = more;
	}
	trace->ops[trace->num_ops++] = *op;
	if (op->t_us > 0) {
		if (!p->first_us || op->t_us < p->first_us)
			p->first_us = op->t_us;
		if (op->t_us > p->last_us)
			p->last_us = op->t_us;
	}
	return 0;
}

static int parse_line(struct parser *p, const char *line, size_t len)
{
	struct gp_trace_op op = {.line = p->line};
	struct field fields[FIELDS] = {{NULL, 0}};
	int err;

	if (p->line == 1 && len &&
	    (line[0] == '#' || (len >= 3 && !memcmp(line, "op,", 3))))
		return 0;
	err = split(p, line, len, fields);
	if (err)
		return err;
	if (fields[0].len != 1)
		return refuse(p, "unknown operation \"%.*s\"",
			      (int)(fields[0].len < 32 ? fields[0].len : 32),
			      fields[0].at);
	if (fields[4].len) {
		err = number(p, &fields[4], "time", &op.t_us);
		if (err)
			return err;
	}
	err = stream_index(p, &fields[3], &op.stream);
	if (err)
		return err;

	switch (fields[0].at[0]) {
	case 'p':
	case 'a':
		err = alloc_line(p, fields, &op);
		break;
	case 'f':
		err = free_line(p, fields, &op);
		break;
	case 'o':
		op.kind = GP_TRACE_OOM;
		err = positive_size(p, &fields[2], &op.bytes);
		break;
	case 'l':
		op.kind = GP_TRACE_LAUNCH;
		break;
	case 's':
		op.kind = GP_TRACE_STREAM_SYNC;
		break;
	case 'S':
		op.kind = GP_TRACE_CONTEXT_SYNC;
		break;
	case 'm':
	case 'u':
		return 0;
	default:
		return refuse(p, "unknown operation \"%c\"", fields[0].at[0]);
	}
	return err ? err : append(p, &op);
}

int gp_trace_parse(const char *text, size_t size, struct gp_trace *trace,
		   char *why, size_t why_size)
{
	struct parser p = {.trace = trace, .why = why, .why_size = why_size};
	const char *end = text + size;
	int err;

	memset(trace, 0, sizeof(*trace));
	if (why_size)
		why[0] = '\0';
	/* Stream 0 is there even if no line names it. */
	err = gp_idmap_put(&p.streams, 0, trace->num_streams++);

	while (!err && text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;
		size_t len = (size_t)(stop - text);

		if (len && text[len - 1] == '\r')
			len--;
		p.line++;
		err = parse_line(&p, text, len);
		text = newline ? newline + 1 : end;
	}
	if (!err && !trace->num_ops) {
		snprintf(why, why_size, "line 1: the trace has no operations");
		err = -EINVAL;
	}
	if (err == -ENOMEM)
		snprintf(why, why_size, "line %u: out of host memory", p.line);
	trace->duration_us = p.last_us - p.first_us;
	gp_idmap_clear(&p.live);
	gp_idmap_clear(&p.streams);
	if (err)
		gp_trace_free(trace);
	return err;
}

size_t gp_trace_leave_out(struct gp_trace *trace, uint64_t bytes)
{
	bool *out = calloc(trace->num_blocks + 1, sizeof(*out));
	size_t i, kept = 0, count = 0;

	if (!out)
		return 0;
	for (i = 0; i < trace->num_ops; i++) {
		const struct gp_trace_op *op = &trace->ops[i];

		if (op->kind == GP_TRACE_ALLOC && op->bytes == bytes) {
			out[op->block] = true;
			count++;
		}
		if ((op->kind == GP_TRACE_ALLOC || op->kind == GP_TRACE_FREE) &&
		    out[op->block])
			continue;
		trace->ops[kept++] = *op;
	}
	trace->num_ops = kept;
	free(out);
	return count;
}

void gp_trace_free(struct gp_trace *trace)
{
	free(trace->ops);
	memset(trace, 0, sizeof(*trace));
}
