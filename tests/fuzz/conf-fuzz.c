/*
 * Random configurations: near-misses built from the option table, with bytes
 * changed at random. Whatever the text, the outcome must be a valid struct
 * that prints to text which parses to the same struct.
 *
 *   conf-fuzz [--ops N] [--seed S]
 *
 * Exit 0: clean; 1: a failure, with the seed and the text; 2: wrong use.
 *
 * `make libfuzzer` makes a libFuzzer target of it. What that found worth
 * keeping is in corpus/conf, which a unit test replays. To go on from there:
 *
 *   mkdir new smaller; build/libfuzzer/conf-fuzz -dict=build/libfuzzer/conf-fuzz.dict \
 *       -max_len=400 new tests/fuzz/corpus/conf
 *   build/libfuzzer/conf-fuzz -set_cover_merge=1 smaller new tests/fuzz/corpus/conf
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *failure; /* what was wrong with the current input */

static void expect(bool holds, const char *what)
{
	if (!holds && !failure)
		failure = what;
}

struct heard {
	int sentences;
	bool small_split; /* the one remark that a printed text may get */
};

static void listen(void *arg, const char *sentence)
{
	struct heard *heard = arg;

	heard->sentences++;
	heard->small_split |=
		strstr(sentence, "though PyTorch accepts only") != NULL;
	expect(sentence[0], "an empty message");
	expect(strlen(sentence) < 1023, "a long message");
	for (; *sentence; sentence++)
		expect((unsigned char)*sentence >= ' ' && *sentence != 0x7f,
		       "a control character in a message");
}

/* Whole numbers are within the bounds of their rows. */
static void expect_bounds(const struct gp_conf *conf)
{
	for (size_t i = 0; i < gp_conf_count(); i++) {
		const struct gp_conf_row *row = &gp_conf_rows[i];
		uint64_t number;

		if (row->size != sizeof(number) || !row->high ||
		    row->type == GP_TYPE_FACTOR)
			continue;
		memcpy(&number, (const char *)conf + row->offset,
		       sizeof(number));
		expect(number >= row->low && number <= row->high,
		       row->option.key);
	}
}

static void expect_valid(const struct gp_conf *conf)
{
	struct sigaction old;

	expect(!conf->report_signal ||
		       !sigaction(conf->report_signal, NULL, &old),
	       "a signal that cannot be handled");
	expect(conf->report_signal != SIGKILL && conf->report_signal != SIGSTOP,
	       "a signal that cannot be caught");
	expect(conf->backend <= GP_BACKEND_CUDA_MALLOC_ASYNC, "backend");
	expect(conf->only[0] && memchr(conf->only, 0, sizeof(conf->only)),
	       "only");
	expect(conf->cache_policy <= GP_CONF_NONE, "cache_policy");
	expect(conf->reuse <= GP_CONF_REUSE_SYNC, "reuse");
	expect(conf->free_order <= GP_CONF_ORDER_REUSE, "free_order");
	expect(conf->free_barrier <= GP_CONF_BARRIER_NEVER, "free_barrier");
	expect(conf->stacks <= GP_CONF_STACKS_ALL, "stacks");
	expect(conf->on_bad_limit <= GP_CONF_BAD_LIMIT_CONTINUE,
	       "on_bad_limit");
	expect_bounds(conf);
	for (int i = 0; i < GP_CONF_DEVICES; i++) {
		expect(conf->memory_limit[i] >= 1 << 20, "memory_limit");
		expect(conf->per_process_memory_fraction[i] >= 0 &&
			       conf->per_process_memory_fraction[i] <= 1,
		       "per_process_memory_fraction");
	}
	expect(conf->limit_is_bad == (conf->limit_message[0] != '\0'),
	       "a bad limit without a word");
	expect(memchr(conf->report_dir, 0, sizeof(conf->report_dir)) != NULL,
	       "report_dir is not terminated");
	expect(conf->growth_factor >= 1 && conf->growth_factor <= 16,
	       "growth_factor");
	expect(conf->garbage_collection_threshold >= 0 &&
		       conf->garbage_collection_threshold < 1,
	       "garbage_collection_threshold");
	for (int i = 0; i < GP_CONF_DIVISIONS; i++) {
		const uint32_t n = conf->roundup_power2_divisions[i];

		expect(!(n & (n - 1)) && n <= 65536,
		       "roundup_power2_divisions");
	}
}

static void expect_round_trip(const struct gp_conf *parsed)
{
	static struct gp_conf original;
	const struct gp_conf *conf = &original;
	static char text[4 * PATH_MAX], value[2 * PATH_MAX + 3];
	struct heard heard = {0};
	struct gp_conf copy;
	size_t used = 0;

	/* What was refused is not printed. */
	original = *parsed;
	original.limit_is_bad = false;
	memset(original.limit_message, 0, sizeof(original.limit_message));
	for (size_t i = 0; i < gp_conf_count(); i++) {
		/* What follows another option is not printed while it does. */
		if (gp_conf_is_default(conf, i))
			continue;
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%s%s:%s",
			used ? "," : "", gp_conf_option(i)->key,
			gp_conf_value(conf, i, value, sizeof(value)));
	}
	expect(!gp_conf_parse(used ? text : "", &copy, listen, &heard),
	       "a printed value is refused");
	expect(heard.sentences == (heard.small_split ? 1 : 0),
	       "a printed value is remarked on");
	expect(!memcmp(conf, &copy, sizeof(copy)),
	       "a printed value reads back differently");
}

static void check(const char *text)
{
	struct gp_conf conf, again;
	struct heard heard = {0};
	int refused;

	refused = gp_conf_parse(text, &conf, listen, &heard);
	expect(refused >= 0 && refused <= heard.sentences,
	       "refused without a word");
	expect(gp_conf_parse(text, &again, NULL, NULL) == refused,
	       "another outcome without a listener");
	expect(!memcmp(&conf, &again, sizeof(conf)),
	       "another struct without a listener");
	expect_valid(&conf);
	expect_round_trip(&conf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Of the exact size, so that a read past the end is seen. */
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	failure = NULL;
	check(text);
	free(text);
#ifdef GP_LIBFUZZER
	if (failure) {
		fprintf(stderr, "conf-fuzz: %s\n", failure);
		abort();
	}
#endif
	return 0;
}

#if !defined(GP_LIBFUZZER) && !defined(GP_REPLAY)

static uint64_t rng; /* xorshift64, never 0 */

static uint64_t below(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % n;
}

struct text {
	char at[1024];
	size_t len;
};

static void append(struct text *text, const char *piece)
{
	const size_t len = strlen(piece);

	if (text->len + len >= sizeof(text->at))
		return;
	memcpy(text->at + text->len, piece, len + 1);
	text->len += len;
}

static void append_number(struct text *text)
{
	char buf[32];

	switch (below(4)) {
	case 0:
		snprintf(buf, sizeof(buf), "%u", 1u << below(18));
		break;
	case 1:
		snprintf(buf, sizeof(buf), "%u.%u", (unsigned)below(20),
			 (unsigned)below(1000));
		break;
	case 2:
		snprintf(buf, sizeof(buf), "0.%09u",
			 (unsigned)below(1000000000));
		break;
	default:
		snprintf(buf, sizeof(buf), "%llu",
			 (unsigned long long)(below(UINT64_MAX) >> below(60)));
	}
	append(text, buf);
}

static void append_list(struct text *text)
{
	char buf[32];

	append(text, "[");
	for (uint64_t i = 0, n = 1 + below(5), slot = 0; i < n; i++) {
		slot += below(5);
		snprintf(buf, sizeof(buf), "%s%u:%u", i ? "," : "",
			 1u << (slot & 31), below(8) ? 1u << below(8) : 0);
		append(text, buf);
		slot++;
	}
	if (below(2))
		append(text, ",>:8");
	append(text, "]");
}

static void append_value(struct text *text)
{
	static const char *const words[] = {
		"True",
		"False",
		"1",
		"0",
		"native",
		"passthrough",
		"keep",
		"decay",
		"none",
		"off",
		"unlimited",
		"SIGUSR2",
		"USR1",
		"RTMIN+3",
		"RTMAX-1",
		"/logs",
		"\"/my logs,\"",
		"\"a\\\"b\\\\\"",
		"",
		"[",
		"]",
		"\"",
		"10s",
		"500ms",
		"8GiB",
		"[0:0.5,1:0.8]",
		"[0:8GiB,>:4GiB]",
		"[1:0.5",
		"python*,train",
		"[python*,tr?in]",
		"refuse",
		"cudaMallocAsync",
	};
	static const char *const units[] = {"",    "MB", "MiB", "GiB",
					    "KiB", "B",  "T",   " G"};

	switch (below(4)) {
	case 0:
		append_number(text);
		append(text, units[below(8)]);
		break;
	case 1:
		append_list(text);
		break;
	default:
		append(text, words[below(sizeof(words) / sizeof(words[0]))]);
	}
}

static void append_setting(struct text *text)
{
	const uint64_t pick = below(10);

	if (pick == 0)
		append(text,
		       gp_conf_foreigners[below(gp_conf_num_foreign)].key);
	else
		append(text, gp_conf_option(below(gp_conf_count()))->key);
	append(text, pick == 1 ? " " : pick == 2 ? " : " : ":");
	append_value(text);
}

static void mutate(struct text *text)
{
	static const char bytes[] = ",:[]\"\\ >\t.0179aZ_-\x80\xff";
	const size_t at = text->len ? below(text->len) : 0;

	if (!text->len)
		return;
	switch (below(3)) {
	case 0:
		text->at[at] = bytes[below(sizeof(bytes) - 1)];
		break;
	case 1: /* cut a piece out */
		memmove(text->at + at, text->at + at + 1, text->len - at);
		text->len--;
		break;
	default:
		if (text->len + 2 > sizeof(text->at))
			return;
		memmove(text->at + at + 1, text->at + at, text->len - at + 1);
		text->at[at] = bytes[below(sizeof(bytes) - 1)];
		text->len++;
	}
}

static bool number_argument(const char *arg, uint64_t *number)
{
	char *end;

	if (!arg || *arg < '0' || *arg > '9')
		return false;
	*number = strtoull(arg, &end, 10);
	return !*end;
}

int main(int argc, char **argv)
{
	uint64_t ops = 100000, seed = 1;

	for (int i = 1; i < argc; i += 2) {
		uint64_t *to = !strcmp(argv[i], "--ops")    ? &ops
			       : !strcmp(argv[i], "--seed") ? &seed
							    : NULL;

		if (!to || !number_argument(argv[i + 1], to)) {
			fprintf(stderr,
				"usage: conf-fuzz [--ops N] [--seed S]\n");
			return 2;
		}
	}
	rng = seed * 0x9e3779b97f4a7c15ull | 1;
	for (uint64_t op = 0; op < ops; op++) {
		struct text text = {.len = 0};

		for (uint64_t i = 0, n = below(6); i < n; i++) {
			if (i)
				append(&text, below(20) ? "," : " ");
			append_setting(&text);
		}
		for (uint64_t i = below(2) ? below(6) : 0; i; i--)
			mutate(&text);
		LLVMFuzzerTestOneInput((const uint8_t *)text.at, text.len);
		if (failure) {
			fprintf(stderr,
				"conf-fuzz: %s\nseed %llu, op %llu: %.*s\n",
				failure, (unsigned long long)seed,
				(unsigned long long)op, (int)text.len, text.at);
			return 1;
		}
	}
	printf("conf-fuzz: %llu configurations, seed %llu: clean\n",
	       (unsigned long long)ops, (unsigned long long)seed);
	return 0;
}

#endif
