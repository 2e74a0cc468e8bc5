/*
 * Every row of the option table: values that are taken and values that are
 * not, with the one sentence that the latter get. A row that has no values
 * here fails. Then the spellings that people copy, and each kind of sentence
 * as it is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "conf/value.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* What is said of a bad value behind "is refused". */
#define RANGE         " (out of range)"
#define BLANKS        " (settings are separated by commas, not blanks)"
#define OPEN          " (the [ is never closed)"
#define QUOTE         " (the \" is never closed)"
#define BEHIND        " (something follows the ])"

static const struct good {
	const char *key, *text, *value; /* value: as it is printed */
} goods[] = {
	{"enabled", "False", "False"},
	{"enabled", "0", "False"},
	{"backend", "passthrough", "passthrough"},
	{"backend", "Native", "native"},
	{"only", "python*", "python*"},
	{"only", "[python*,train]", "[python*,train]"},
	{"only", "[t?ain]", "t?ain"},
	{"quiet", "true", "True"},
	{"report_dir", "/logs", "/logs"},
	{"report_dir", "\"/my logs, 1\"", "\"/my logs, 1\""},
	{"report_dir", "", "\"\""},
	{"report_name", "%e.%h-r%r+%t_%p%%", "%e.%h-r%r+%t_%p%%"},
	{"report_name", "x", "x"},
	{"report_format", "text", "text"},
	{"report_format", "JSON", "json"},
	{"report_format", "[json, text]", "[text,json]"},
	{"warn_at", "0.9", "0.9"},
	{"warn_at", "off", "off"},
	{"report_signal", "SIGUSR2", "SIGUSR2"},
	{"report_signal", "usr2", "SIGUSR2"},
	{"report_signal", "none", "none"},
	{"check", "1", "True"},
	{"expandable_segments", "False", "False"},
	{"cache_policy", "keep", "keep"},
	{"cache_policy", "none", "none"},
	{"cache_decay_ms", "500", "500"},
	{"cache_decay_ms", "1.5s", "1500"},
	{"growth_factor", "1.5", "1.5"},
	{"growth_factor", "16", "16.0"},
	{"large_segment_size_mb", "64", "64MiB"},
	{"large_segment_size_mb", "1TiB", "1TiB"},
	{"max_split_size_mb", "32", "32MiB"},
	{"max_split_size_mb", "8 GiB", "8GiB"},
	{"max_split_size_mb", "512MB", "512MiB"},
	{"max_split_size_mb", "32768KiB", "32MiB"},
	{"max_non_split_rounding_mb", "64", "64MiB"},
	{"garbage_collection_threshold", "0.8", "0.8"},
	{"roundup_power2_divisions", "4", "4"},
	{"roundup_power2_divisions", "[256:1, 512:2,1024:4, >:8]",
	 "[256:1,512:2,1024:4,>:8]"},
	{"reuse", "sync", "sync"},
	{"free_order", "full", "full"},
	{"free_order", "reuse", "reuse"},
	{"free_barrier", "always", "always"},
	{"free_barrier", "never", "never"},
	{"zero_memory", "1", "True"},
	{"poison_free", "1", "True"},
	{"guard_bytes", "512", "512B"},
	{"guard_bytes", "1MiB", "1MiB"},
	{"overlap_slack", "0.5", "0.5"},
	{"overlap_slack", "off", "off"},
	{"memory_limit", "8GiB", "8GiB"},
	{"memory_limit", "8589934592", "8GiB"},
	{"memory_limit", "[0:8GiB,1:512MB]", "[0:8GiB,1:512MiB]"},
	{"memory_limit", "[1:8GiB]", "[1:8GiB]"},
	{"per_process_memory_fraction", "0.25", "0.25"},
	{"per_process_memory_fraction", "0", "0.0"},
	{"per_process_memory_fraction", "[0:0.5,1:0.8]", "[0:0.5,1:0.8]"},
	{"host_limit", "64GiB", "64GiB"},
	{"count_context", "False", "False"},
	{"virtualize", "False", "False"},
	{"on_bad_limit", "continue", "continue"},
	{"ring_events", "False", "False"},
	{"ring_size", "64KiB", "64KiB"},
	{"ring_size", "1048576", "1MiB"},
	{"keep_reports", "0", "0"},
	{"keep_reports", "10000", "10000"},
	{"keep_reports_size", "1GiB", "1GiB"},
	{"stacks", "off", "off"},
	{"stacks", "oom", "oom"},
	{"stacks", "sample", "sample"},
	{"stacks", "all", "all"},
	{"sample_bytes", "4KiB", "4KiB"},
	{"sample_bytes", "524288", "512KiB"},
	{"sample_bytes", "1TiB", "1TiB"},
	{"neighbour_wait", "0", "0"},
	{"neighbour_wait", "1s", "1000"},
	{"reserve_floor", "2GiB", "2GiB"},
	{"reserve_floor", "512MB", "512MiB"},
};

static const struct bad {
	const char *key, *text, *why;
} bads[] = {
	{"enabled", "no", ""},
	{"enabled", "", ""},
	{"backend", "fast", ""},
	{"only", "", ""},
	{"only", "/usr/bin/python3", ""},
	{"only", "python* train", BLANKS},
	{"only", "[python*,", OPEN},
	{"quiet", "2", ""},
	{"quiet", "True check:True", BLANKS},
	{"report_dir", "/my logs", BLANKS},
	{"report_dir", "\"/my logs", QUOTE},
	{"report_dir", "\"/my\" logs", " (something follows the \")"},
	{"report_name", "", ""},
	{"report_name", "logs/%p", ""},
	{"report_name", ".%p", ""},
	{"report_name", "%x", ""},
	{"report_name", "100%", ""},
	{"report_name", "my %p", BLANKS},
	{"report_format", "", ""},
	{"report_format", "[]", ""},
	{"report_format", "html", ""},
	{"report_format", "[text,", OPEN},
	{"report_format", "[text,]", ""},
	{"warn_at", "1", RANGE},
	{"warn_at", "0", RANGE},
	{"warn_at", "90%", ""},
	{"report_signal", "SIGKILL", ""},
	{"report_signal", "SIGFOO", ""},
	{"check", "yes", ""},
	{"expandable_segments", "on", ""},
	{"cache_policy", "forever", ""},
	{"cache_decay_ms", "9", RANGE},
	{"cache_decay_ms", "1h", ""},
	{"cache_decay_ms", "-1", ""},
	{"growth_factor", "0.9", RANGE},
	{"growth_factor", "17", RANGE},
	{"growth_factor", "1e1", ""},
	{"large_segment_size_mb", "10", RANGE},
	{"large_segment_size_mb", "unlimited", ""},
	{"max_split_size_mb", "1", RANGE},
	{"max_split_size_mb", "64 M B", BLANKS},
	{"max_split_size_mb", "64MiBs", ""},
	{"max_split_size_mb", "99999999999999999999GiB", ""},
	{"max_non_split_rounding_mb", "0", RANGE},
	{"garbage_collection_threshold", "1", RANGE},
	{"garbage_collection_threshold", "80%", ""},
	{"roundup_power2_divisions", "3", ""},
	{"roundup_power2_divisions", "[256:1,512:2", OPEN},
	{"roundup_power2_divisions", "[256:1]x", BEHIND},
	{"roundup_power2_divisions", "[3:1]", ""},
	{"reuse", "fast", ""},
	{"free_order", "none", ""},
	{"free_barrier", "True", ""},
	{"zero_memory", "2", ""},
	{"poison_free", "0xdd", ""},
	{"guard_bytes", "2MiB", RANGE},
	{"guard_bytes", "True", ""},
	{"overlap_slack", "1.0", RANGE},
	{"memory_limit", "8", RANGE},
	{"memory_limit", "-1GiB", ""},
	{"memory_limit", "[0:8GiB,1:x]", ""},
	{"memory_limit", "[64:8GiB]", RANGE},
	{"memory_limit", "[0:8GiB", OPEN},
	{"per_process_memory_fraction", "1.01", RANGE},
	{"per_process_memory_fraction", "50%", ""},
	{"per_process_memory_fraction", "[0:0.5,0:0.5]", ""},
	{"host_limit", "[0:8GiB]", ""},
	{"host_limit", "64", RANGE},
	{"count_context", "maybe", ""},
	{"virtualize", "off", ""},
	{"on_bad_limit", "warn", ""},
	{"ring_events", "many", ""},
	{"ring_size", "63KiB", RANGE},
	{"ring_size", "16", RANGE}, /* bytes */
	{"ring_size", "2GiB", RANGE},
	{"ring_size", "unlimited", ""},
	{"keep_reports", "10001", RANGE},
	{"keep_reports", "1.5", ""},
	{"keep_reports", "5MiB", ""},
	{"keep_reports_size", "2TiB", RANGE},
	{"stacks", "True", ""},
	{"stacks", "samples", ""},
	{"sample_bytes", "4095", RANGE},
	{"sample_bytes", "2TiB", RANGE},
	{"sample_bytes", "off", ""},
	{"neighbour_wait", "61s", RANGE},
	{"reserve_floor", "unlimited", ""},
};

static struct gp_conf conf;
static char said[8192];
static int num_said;

static void take(void *arg, const char *sentence)
{
	(void)arg;
	num_said++;
	strcat(said, sentence);
	strcat(said, "\n");
}

static int parse(const char *text)
{
	said[0] = '\0';
	num_said = 0;
	return gp_conf_parse(text, &conf, take, NULL);
}

static size_t index_of(const char *key)
{
	for (size_t i = 0; i < gp_conf_count(); i++) {
		if (!strcmp(gp_conf_option(i)->key, key))
			return i;
	}
	fail_msg("there is no option %s: take it out of this test", key);
	return 0;
}

static void test_every_row_is_here(void **state)
{
	(void)state;
	for (size_t i = 0; i < gp_conf_count(); i++) {
		const char *key = gp_conf_option(i)->key;
		int good = 0, bad = 0;

		for (size_t j = 0; j < LENGTH(goods); j++)
			good += !strcmp(goods[j].key, key);
		for (size_t j = 0; j < LENGTH(bads); j++)
			bad += !strcmp(bads[j].key, key);
		if (!good || !bad)
			fail_msg("give option %s a good and a bad value here",
				 key);
	}
}

/* Among others, which hold as well. */
static void test_good(void **state)
{
	char text[256], value[256];
	bool changed[GP_CONF_MAX_ROWS] = {false};

	(void)state;
	for (size_t i = 0; i < LENGTH(goods); i++) {
		const struct good *at = &goods[i];
		const size_t index = index_of(at->key);

		snprintf(text, sizeof(text), "%s:%s", at->key, at->text);
		if (parse(text) || num_said)
			fail_msg("%s: %s", text, said);
		gp_conf_value(&conf, index, value, sizeof(value));
		assert_string_equal(value, at->value);
		assert_false(conf.limit_is_bad);
		changed[index] |= !gp_conf_is_default(&conf, index);

		snprintf(text, sizeof(text),
			 "pinned_free_catch_all:1, %s : %s ,"
			 "expandable_segments_reserve:[1:2]",
			 at->key, at->text);
		assert_int_equal(parse(text), 0);
		assert_int_equal(num_said, 1);
		gp_conf_value(&conf, index, value, sizeof(value));
		assert_string_equal(value, at->value);
	}
	/* A row whose only value is the default would prove little. */
	for (size_t i = 0; i < gp_conf_count(); i++) {
		if (!changed[i])
			fail_msg("give option %s another value than %s",
				 gp_conf_option(i)->key,
				 gp_conf_rows[i].initial);
	}
}

static void test_bad(void **state)
{
	char text[256], value[256], sentence[1024];

	(void)state;
	for (size_t i = 0; i < LENGTH(bads); i++) {
		const struct bad *at = &bads[i];
		const size_t index = index_of(at->key);
		const char *initial = gp_conf_rows[index].initial;

		snprintf(text, sizeof(text), "%s:%s", at->key, at->text);
		snprintf(sentence, sizeof(sentence),
			 "%s is refused%s, %s stays %s; accepted: %s\n", text,
			 at->why, at->key, initial,
			 gp_conf_option(index)->accepted);
		if (parse(text) != 1)
			fail_msg("%s is taken", text);
		assert_string_equal(said, sentence);
		assert_int_equal(conf.limit_is_bad,
				 strstr(at->key, "_limit") != NULL
					 ? strcmp(at->key, "on_bad_limit") != 0
					 : strstr(at->key, "fraction") != NULL);
		assert_int_equal(strlen(conf.limit_message) > 0,
				 conf.limit_is_bad);

		/* The others hold, and nothing more is said. */
		snprintf(text, sizeof(text),
			 "large_segment_size_mb:77,%s:%s,"
			 "max_split_size_mb:99,on_bad_limit:continue",
			 at->key, at->text);
		parse(text);
		if (strcmp(at->key, "large_segment_size_mb") != 0) {
			assert_int_equal(num_said, 1);
			assert_int_equal(conf.large_segment_size, 77 << 20);
		}
		assert_int_equal(conf.max_split_size, 99 << 20);
		assert_false(conf.limit_is_bad);
		if (strcmp(at->key, "large_segment_size_mb") != 0 &&
		    strcmp(at->key, "max_split_size_mb") != 0 &&
		    strcmp(at->key, "max_non_split_rounding_mb") != 0 &&
		    strcmp(at->key, "on_bad_limit") != 0) {
			gp_conf_value(&conf, index, value, sizeof(value));
			assert_string_equal(value, initial);
		}
	}
}

/* As they stand in documentation, tutorials and issues. */
static void test_tutorials(void **state)
{
	static const char *const silent[] = {
		"max_split_size_mb:32",
		"max_split_size_mb:512",
		"garbage_collection_threshold:0.6,max_split_size_mb:128",
		"expandable_segments:True",
		"expandable_segments:False",
		"backend:native",
		"roundup_power2_divisions:4",
		"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
		"expandable_segments:True,"
		"roundup_power2_divisions:[32:256,64:128,256:64,>:32]",
		"max_split_size_mb:512, expandable_segments:True",
		"growth_factor:1.5,cache_policy:keep",
		"per_process_memory_fraction:0.5",
		"large_segment_size_mb:64,max_non_split_rounding_mb:64",
		" expandable_segments : True ",
		"expandable_segments:true,max_split_size_mb:1024",
	};
	static const struct {
		const char *text, *sentence;
	} noted[] = {
		{"garbage_collection_threshold 0.8",
		 "garbage_collection_threshold 0.8 has a blank where the colon "
		 "belongs; read as garbage_collection_threshold:0.8\n"},
		{"max_split_size_mb 128,garbage_collection_threshold 0.8",
		 "max_split_size_mb 128 has a blank where the colon belongs; "
		 "read as max_split_size_mb:128\n"},
		{"growth_factor 1.5",
		 "growth_factor 1.5 has a blank where the colon belongs; read "
		 "as growth_factor:1.5\n"},
		{"pinned_use_cuda_host_register:True,"
		 "pinned_num_register_threads:8",
		 "without effect here: pinned_use_cuda_host_register, "
		 "pinned_num_register_threads (gpupool does not pool host "
		 "memory)\n"},
		{"release_lock_on_cudamalloc:True",
		 "without effect here: release_lock_on_cudamalloc (gpupool "
		 "never holds a lock across a driver call)\n"},
		{"max_split_size_mb:16",
		 "max_split_size_mb:16MiB is taken, though PyTorch accepts "
		 "only 20MiB (large_segment_size_mb) or more\n"},
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(silent); i++) {
		if (parse(silent[i]) || num_said)
			fail_msg("%s: %s", silent[i], said);
	}
	for (size_t i = 0; i < LENGTH(noted); i++) {
		assert_int_equal(parse(noted[i].text), 0);
		assert_string_equal(said, noted[i].sentence);
	}
	parse("max_split_size_mb 128,garbage_collection_threshold 0.8");
	assert_int_equal(conf.max_split_size, 128 << 20);
	assert_true(conf.garbage_collection_threshold == 0.8);
}

/* What is not about one row's value. */
static void test_sentences(void **state)
{
	static const struct {
		const char *text, *sentence;
		int refused;
	} rows[] = {
		{"quiet:1,,check:1,",
		 "an empty setting (a comma too many) is "
		 "passed over\n",
		 0},
		{"quiet",
		 "quiet is ignored: it has no value; accepted: True "
		 "or False\n",
		 1},
		{"quiet=1",
		 "quiet=1 is ignored: a setting is written "
		 "key:value, with a colon\n",
		 1},
		{"quite:1",
		 "quite:1 is ignored: no such key; the nearest "
		 "known key is quiet\n",
		 1},
		{"quiet:1,quiet:0",
		 "quiet is given more than once; the last, "
		 "quiet:0, holds\n",
		 0},
		{"@/no/such",
		 "@/no/such cannot be read: No such file or "
		 "directory; no setting of it holds\n",
		 1},
		{"@/",
		 "@/ cannot be read: Is a directory; no setting of it "
		 "holds\n",
		 1},
		{"@/dev/null",
		 "@/dev/null cannot be read: not a regular "
		 "file; no setting of it holds\n",
		 1},
		{"@",
		 "@ cannot be read: a file's name is written @name, in "
		 "double quotes if it has blanks, commas or quotes; no "
		 "setting of it holds\n",
		 1},
		{"@\"/etc,quiet:1",
		 "@\"/etc cannot be read: a file's name is written @name, in "
		 "double quotes if it has blanks, commas or quotes; no "
		 "setting of it holds\n",
		 1},
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		assert_int_equal(parse(rows[i].text), rows[i].refused);
		assert_string_equal(said, rows[i].sentence);
		/* There may have been a limit in it. */
		assert_int_equal(conf.limit_is_bad, rows[i].text[0] == '@');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_row_is_here),
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_tutorials),
		cmocka_unit_test(test_sentences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
