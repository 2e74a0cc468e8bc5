/*
 * gpupool-replay: plays a recorded sequence of allocations against the pool,
 * or against other allocators' rules, without a card.
 *
 * Exit status: 0 played (refused allocations are a result, told in it); 1 the
 * trace is malformed or the policy failed; 2 wrong use.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "pool/replay/player.h"
#include "pool/replay/print.h"

struct options {
	const char *conf;
	const struct gp_policy *policy;
	uint64_t memory;
	uint64_t without; /* size to leave out; 0: none */
	bool json, timed;
	const char *trace;
};

static const char usage[] =
	"usage: gpupool-replay [--conf CONF] [--policy POLICY] [--memory "
	"SIZE]\n"
	"                      [--without SIZE] [--json] [--no-timing] "
	"TRACE|-\n"
	"\n"
	"Plays an allocation trace without a card and tells what it takes.\n"
	"TRACE has lines op,id,size,stream,t_us and may be xz-compressed.\n"
	"\n"
	"  --conf CONF      settings, as in GPUPOOL_CONF\n"
	"  --policy POLICY  how memory is managed (default: pool)\n"
	"  --memory SIZE    what the device has, as 80GiB (default: no limit)\n"
	"  --without SIZE   leave out allocations of exactly SIZE; 64MiB on "
	"Hopper\n"
	"                   are cuBLAS's own, made past PyTorch's allocator\n"
	"  --json           one JSON object; sizes in bytes\n"
	"  --no-timing      do not measure host time per operation\n"
	"\n"
	"Policies:\n";

static void print_usage(FILE *out)
{
	const struct gp_policy *const *p;

	fputs(usage, out);
	for (p = gp_policies; *p; p++)
		fprintf(out, "  %-11s %s\n", (*p)->name, (*p)->help);
}

static int wrong_use(const char *format, const char *what)
{
	fputs("gpupool-replay: ", stderr);
	fprintf(stderr, format, what);
	fputs("; see gpupool-replay --help\n", stderr);
	return 2;
}

/* A whole number of bytes with an optional unit: KiB, MB, G and the like. */
static int parse_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	uint64_t factor = 1;
	double n;

	errno = 0;
	n = strtod(text, &end);
	if (end == text || errno || !(n > 0))
		return -EINVAL;
	while (*end == ' ')
		end++;
	unit = *end ? strchr(units, *end >= 'a' ? *end - 32 : *end) : NULL;
	if (unit) {
		factor = 1ull << (10 * (unit - units + 1));
		end++;
		if (*end == 'i')
			end++;
	}
	if (*end == 'B' || *end == 'b')
		end++;
	n *= (double)factor;
	if (*end || n < 1 || n > (double)(1ull << 50))
		return -EINVAL;
	*bytes = (uint64_t)n;
	return 0;
}

static int parse_options(int argc, char **argv, struct options *o)
{
	enum { CONF, POLICY, MEMORY, WITHOUT, JSON, NO_TIMING, HELP };
	static const struct option longs[] = {
		{"conf", required_argument, NULL, CONF},
		{"policy", required_argument, NULL, POLICY},
		{"memory", required_argument, NULL, MEMORY},
		{"without", required_argument, NULL, WITHOUT},
		{"json", no_argument, NULL, JSON},
		{"no-timing", no_argument, NULL, NO_TIMING},
		{"help", no_argument, NULL, HELP},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case CONF:
			o->conf = optarg;
			break;
		case POLICY:
			o->policy = gp_policy_find(optarg);
			if (!o->policy)
				return wrong_use("no policy \"%s\"", optarg);
			break;
		case MEMORY:
			if (parse_size(optarg, &o->memory))
				return wrong_use("\"%s\" is no size", optarg);
			break;
		case WITHOUT:
			if (parse_size(optarg, &o->without))
				return wrong_use("\"%s\" is no size", optarg);
			break;
		case JSON:
			o->json = true;
			break;
		case NO_TIMING:
			o->timed = false;
			break;
		case HELP:
		case 'h':
			print_usage(stdout);
			exit(0);
		default:
			return 2; /* getopt said why */
		}
	}
	if (argc - optind != 1)
		return wrong_use("%s", argc == optind ? "no trace given"
						      : "one trace at a time");
	o->trace = argv[optind];
	return 0;
}

static void conf_message(void *arg, const char *sentence)
{
	(void)arg;
	fprintf(stderr, "gpupool-replay: %s\n", sentence);
}

int main(int argc, char **argv)
{
	struct options o = {
		.conf = "", .policy = &gp_policy_pool, .timed = true};
	struct gp_replay_result result;
	struct gp_trace trace;
	struct gp_conf conf;
	char why[256];
	int status = parse_options(argc, argv, &o);

	if (status)
		return status;
	/* A library starts in spite of a bad setting; a comparison does not. */
	if (gp_conf_parse(o.conf, &conf, conf_message, NULL))
		return 2;
	if (gp_trace_load(o.trace, &trace, why, sizeof(why))) {
		fprintf(stderr, "gpupool-replay: %s: %s\n", o.trace, why);
		return 1;
	}
	if (o.without)
		gp_trace_leave_out(&trace, o.without);
	if (gp_replay_play(&trace, o.policy, &conf, o.memory, o.timed, &result,
			   why, sizeof(why))) {
		fprintf(stderr, "gpupool-replay: %s: %s\n", o.trace, why);
		status = 1;
	} else {
		struct gp_replay_run run = {
			.trace_name = o.trace,
			.trace = &trace,
			.policy = o.policy,
			.conf = o.conf,
			.memory = o.memory,
			.result = &result,
		};

		if (o.json)
			gp_replay_print_json(&run, stdout);
		else
			gp_replay_print_text(&run, stdout);
		if (fflush(stdout) || ferror(stdout)) {
			fprintf(stderr, "gpupool-replay: cannot write: %s\n",
				strerror(errno));
			status = 1;
		}
	}
	gp_replay_result_free(&result);
	gp_trace_free(&trace);
	return status;
}
