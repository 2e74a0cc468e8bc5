/*
 * Text and JSON of one run.
 */
#include "pool/replay/print.h"

#include <inttypes.h>
#include <stdio.h>

#include "stats/report.h"

#define TEXT_OOMS 10 /* more are only counted */

static double efficiency(const struct gp_replay_run *run)
{
	uint64_t reserved = run->result->totals.peak_physical;

	return reserved ? (double)run->result->peak_live / (double)reserved : 0;
}

static double driver_us(const struct gp_replay_run *run)
{
	return (double)run->result->totals.driver_ns / 1000.0;
}

static const char *size_text(uint64_t bytes, char buf[32])
{
	return gp_format_bytes(bytes, buf, 32);
}

static void text_driver(const struct gp_replay_run *run, FILE *out)
{
	const struct gp_cost_totals *t = &run->result->totals;
	uint64_t calls = 0;
	int column = 13, i;

	for (i = 0; i < GP_CALL_COUNT; i++)
		calls += t->calls[i];
	fprintf(out, "driver         %" PRIu64 " calls, %.1f ms modelled",
		calls, driver_us(run) / 1000);
	if (run->trace->duration_us > 0)
		fprintf(out, ", %.3f %% of the trace's %.1f s",
			100 * driver_us(run) / (double)run->trace->duration_us,
			(double)run->trace->duration_us / 1e6);
	fprintf(out, "\n%*s", column, "");
	for (i = 0; i < GP_CALL_COUNT; i++) {
		char item[48];
		int len;

		if (!t->calls[i])
			continue;
		len = snprintf(item, sizeof(item), "  %s %" PRIu64,
			       gp_driver_call_name((enum gp_driver_call)i),
			       t->calls[i]);
		if (column + len > 80) {
			fprintf(out, "\n%13s", "");
			column = 13;
		}
		column += len;
		fputs(item, out);
	}
	fprintf(out, "\nremaps         %" PRIu64 "\n", t->remaps);
}

static void text_ooms(const struct gp_replay_run *run, FILE *out)
{
	const struct gp_replay_result *r = run->result;
	size_t i;

	for (i = 0; i < r->num_ooms && i < TEXT_OOMS; i++) {
		const struct gp_replay_oom *oom = &r->ooms[i];
		char bytes[32], live[32], reserved[32];

		fprintf(out, "line %-9u %s of %s%s\n", oom->line,
			oom->served ? "SERVED" : "OUT OF MEMORY",
			size_text(oom->bytes, bytes),
			oom->recorded ? ", refused when recorded" : "");
		fprintf(out, "%15slive %s, reserved %s\n", "",
			size_text(oom->live, live),
			size_text(oom->reserved, reserved));
	}
	if (r->num_ooms > TEXT_OOMS)
		fprintf(out, "%-15s%zu more such lines\n", "...",
			r->num_ooms - TEXT_OOMS);
}

void gp_replay_print_text(const struct gp_replay_run *run, FILE *out)
{
	const struct gp_replay_result *r = run->result;
	char live[32], reserved[32], memory[32];

	fprintf(out, "trace          %s: %" PRIu64 " operations\n",
		run->trace_name, r->ops);
	fprintf(out, "policy         %s%s%s", run->policy->name,
		run->conf[0] ? ", " : "", run->conf);
	if (run->memory)
		fprintf(out, ", %s of memory", size_text(run->memory, memory));
	fprintf(out, "\npeak live      %s\n", size_text(r->peak_live, live));
	fprintf(out,
		"peak reserved  %s, efficiency %.3f (peak live / peak "
		"reserved)\n",
		size_text(r->totals.peak_physical, reserved), efficiency(run));
	text_driver(run, out);
	if (r->ns_per_op >= 0)
		fprintf(out,
			"host time      %.0f ns per operation; %.0f when "
			"played "
			"again over the memory\n               that the first "
			"time left in the pool\n",
			r->ns_per_op, r->warm_ns_per_op);
	text_ooms(run, out);
}

static void json_string(const char *text, FILE *out)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void json_ns(const char *key, double ns, FILE *out)
{
	if (ns >= 0)
		fprintf(out, "  \"%s\": %.2f,\n", key, ns);
	else
		fprintf(out, "  \"%s\": null,\n", key);
}

static void json_ooms(const struct gp_replay_result *r, FILE *out)
{
	size_t i;

	fprintf(out, "  \"oom\": [");
	for (i = 0; i < r->num_ooms; i++) {
		const struct gp_replay_oom *oom = &r->ooms[i];

		fprintf(out,
			"%s\n    {\"line\": %u, \"bytes\": %" PRIu64
			", \"recorded\": %s, \"outcome\": \"%s\", "
			"\"live\": %" PRIu64 ", \"reserved\": %" PRIu64 "}",
			i ? "," : "", oom->line, oom->bytes,
			oom->recorded ? "true" : "false",
			oom->served ? "served" : "refused", oom->live,
			oom->reserved);
	}
	fprintf(out, "%s]\n", r->num_ooms ? "\n  " : "");
}

void gp_replay_print_json(const struct gp_replay_run *run, FILE *out)
{
	const struct gp_replay_result *r = run->result;
	const struct gp_cost_totals *t = &r->totals;
	int i;

	fprintf(out, "{\n  \"trace\": ");
	json_string(run->trace_name, out);
	fprintf(out, ",\n  \"policy\": ");
	json_string(run->policy->name, out);
	fprintf(out, ",\n  \"conf\": ");
	json_string(run->conf, out);
	fprintf(out, ",\n  \"memory\": %" PRIu64 ",\n", run->memory);
	fprintf(out, "  \"ops\": %" PRIu64 ",\n", r->ops);
	fprintf(out, "  \"duration_us\": %" PRId64 ",\n",
		run->trace->duration_us);
	fprintf(out, "  \"peak_live\": %" PRIu64 ",\n", r->peak_live);
	fprintf(out, "  \"peak_reserved\": %" PRIu64 ",\n", t->peak_physical);
	fprintf(out, "  \"efficiency\": %.6f,\n", efficiency(run));
	fprintf(out, "  \"driver_calls\": {");
	for (i = 0; i < GP_CALL_COUNT; i++)
		fprintf(out, "%s\"%s\": %" PRIu64, i ? ", " : "",
			gp_driver_call_name((enum gp_driver_call)i),
			t->calls[i]);
	fprintf(out, "},\n  \"driver_us\": %.1f,\n", driver_us(run));
	fprintf(out, "  \"waits\": %" PRIu64 ",\n", t->waits);
	fprintf(out, "  \"remaps\": %" PRIu64 ",\n", t->remaps);
	json_ns("ns_per_op", r->ns_per_op, out);
	json_ns("warm_ns_per_op", r->warm_ns_per_op, out);
	fprintf(out, "  \"refused\": %" PRIu64 ",\n", r->num_refused);
	json_ooms(r, out);
	fprintf(out, "}\n");
}
