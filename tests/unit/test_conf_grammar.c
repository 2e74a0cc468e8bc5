/*
 * The grammar, and the sentence that each mistake gets.
 */
#include <setjmp.h>
#include <locale.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "conf/value.h"

static struct gp_conf conf;
static char said[8192];
static int num_said;

static void take(void *arg, const char *sentence)
{
	assert_ptr_equal(arg, &conf);
	assert_true(strlen(sentence) > 0);
	assert_null(strchr(sentence, '\n'));
	num_said++;
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n",
		 sentence);
}

/* The number of refusals. */
static int parse(const char *text)
{
	said[0] = '\0';
	num_said = 0;
	return gp_conf_parse(text, &conf, take, &conf);
}

static void says(const char *sentence)
{
	if (!strstr(said, sentence))
		fail_msg("said: %sand not: %s", said, sentence);
}

static void test_empty(void **state)
{
	(void)state;
	assert_int_equal(parse(NULL), 0);
	assert_int_equal(parse(""), 0);
	assert_int_equal(parse(" \t\n"), 0);
	assert_int_equal(num_said, 0);
	assert_true(conf.enabled);
}

static void test_separators(void **state)
{
	(void)state;
	assert_int_equal(parse("quiet:True,check:True"), 0);
	assert_true(conf.quiet && conf.check);
	assert_int_equal(parse("  quiet :\tTrue ,\n check: 1  "), 0);
	assert_true(conf.quiet && conf.check);
	assert_int_equal(num_said, 0);

	assert_int_equal(parse("quiet:True,,check:True,"), 0);
	assert_true(conf.quiet && conf.check);
	assert_int_equal(num_said, 1); /* once is enough */
	says("an empty setting (a comma too many) is passed over");
	assert_int_equal(parse(","), 0);
	assert_int_equal(num_said, 1);
}

static void test_missing_comma(void **state)
{
	(void)state;
	assert_int_equal(parse("quiet:True check:True"), 1);
	assert_false(conf.quiet);
	assert_false(conf.check);
	says("quiet:True check:True is refused (settings are separated by "
	     "commas, "
	     "not blanks), quiet stays False; accepted: True or False\n");
}

static void test_blank_for_colon(void **state)
{
	(void)state;
	assert_int_equal(
		parse("garbage_collection_threshold 0.8,max_split_size_mb 64"),
		0);
	assert_true(conf.garbage_collection_threshold == 0.8);
	assert_int_equal(conf.max_split_size, 64 << 20);
	assert_int_equal(num_said, 1);
	says("garbage_collection_threshold 0.8 has a blank where the colon "
	     "belongs; read as garbage_collection_threshold:0.8\n");
	/* One line, whatever is wrong. */
	assert_int_equal(parse("quiet True check True"), 1);
	assert_false(conf.quiet);
	assert_int_equal(num_said, 1);
	assert_int_equal(parse("quite True"), 1);
	assert_int_equal(num_said, 1);
	says("quite:True is ignored: no such key; the nearest known key is "
	     "quiet\n");
	assert_int_equal(parse("quiet maybe"), 1);
	assert_int_equal(num_said, 1);
	assert_int_equal(parse("pinned_free_catch_all True"), 0);
	assert_int_equal(num_said, 2);
}

static void test_no_value(void **state)
{
	(void)state;
	assert_int_equal(parse("quiet"), 1);
	says("quiet is ignored: it has no value; accepted: True or False\n");
	assert_int_equal(parse("quiet,check:1"), 1);
	assert_true(conf.check);
	assert_int_equal(parse("quiet:"), 1);
	says("quiet: is refused, quiet stays False; accepted: True or False\n");
	assert_int_equal(parse(":True"), 1);
	assert_int_equal(parse(":"), 1);
	assert_int_equal(num_said, 1);
	says("no such key");
}

static void test_unknown_key(void **state)
{
	(void)state;
	assert_int_equal(parse("report_dri:/tmp,quiet:1"), 1);
	assert_true(conf.quiet);
	says("report_dri:/tmp is ignored: no such key; the nearest known key "
	     "is report_dir\n");
	assert_int_equal(parse("max_split_size:64"), 1);
	says("the nearest known key is max_split_size_mb\n");
	assert_int_equal(parse("Quiet:1"), 1);
	says("the nearest known key is quiet\n");
	assert_int_equal(parse("report-dir:/x"), 1);
	says("the nearest known key is report_dir\n");
	assert_int_equal(parse("roundup:4"), 1);
	says("the nearest known key is roundup_power2_divisions\n");
	assert_int_equal(parse("garbage_collect_threshold:0.8"), 1);
	says("is garbage_collection_threshold\n");
	assert_int_equal(parse("pinned_use_cuda_host_registre:1"), 1);
	says("is pinned_use_cuda_host_register\n");
	assert_int_equal(parse("zzzzzzzz:1"), 1);
	says("zzzzzzzz:1 is ignored: no such key, and none is like it (the "
	     "keys: enabled, ");
	says("roundup_power2_divisions");
	assert_int_equal(parse("zzzzzzzz"), 1);
	says("zzzzzzzz is ignored: no such key");
	assert_int_equal(parse("quiet=True,check:1"), 1);
	says("quiet=True is ignored: a setting is written key:value, with a "
	     "colon\n");
	assert_true(conf.check);
	assert_int_equal(parse("a_key_that_is_longer_than_any_key_can_be_in_"
			       "this_table_of_options:1"),
			 1);
	says("none is like it");
}

static void test_bad_value_keeps_default(void **state)
{
	(void)state;
	assert_int_equal(parse("check:1,max_split_size_mb:abc,quiet:1"), 1);
	assert_true(conf.check && conf.quiet);
	assert_true(conf.max_split_size == UINT64_MAX);
	says("max_split_size_mb:abc is refused, max_split_size_mb stays "
	     "unlimited; "
	     "accepted: a size from 2 MiB up, or unlimited\n");
	assert_int_equal(parse("garbage_collection_threshold:1.5"), 1);
	says("garbage_collection_threshold:1.5 is refused (out of range), "
	     "garbage_collection_threshold stays off; ");
	assert_int_equal(parse("a:1,b:2,quiet:x"), 3);
	assert_int_equal(num_said, 3);
}

static void test_duplicates(void **state)
{
	(void)state;
	assert_int_equal(parse("quiet:True,quiet:False"), 0);
	assert_false(conf.quiet);
	says("quiet is given more than once; the last, quiet:False, holds\n");
	/* A bad one later does not undo the good one. */
	assert_int_equal(parse("quiet:True,quiet:maybe"), 1);
	assert_true(conf.quiet);
	says("quiet:maybe is refused, quiet stays True;");
}

static void test_foreign(void **state)
{
	(void)state;
	assert_int_equal(parse("pinned_use_cuda_host_register:True,quiet:1,"
			       "expandable_segments_reserve:[1:2,3:4],"
			       "pinned_free_catch_all:False,"
			       "pinned_free_catch_all:True"),
			 0);
	assert_true(conf.quiet);
	assert_int_equal(num_said, 1); /* one for all */
	says("without effect here: pinned_use_cuda_host_register, "
	     "pinned_free_catch_all (gpupool does not pool host memory); "
	     "expandable_segments_reserve (gpupool chooses the size of its "
	     "address range itself)\n");
	for (size_t i = 0; i < gp_conf_num_foreign; i++) {
		char text[128];

		snprintf(text, sizeof(text), "%s:1", gp_conf_foreigners[i].key);
		assert_int_equal(parse(text), 0);
		assert_int_equal(num_said, 1);
		snprintf(text, sizeof(text), "without effect here: %s (%s)\n",
			 gp_conf_foreigners[i].key, gp_conf_foreigners[i].why);
		assert_string_equal(said, text);
	}
}

/* Of all at once, nothing is cut off; rows with the same reason stand
 * together, so that it is said once. */
static void test_all_foreign(void **state)
{
	char text[2048] = "";
	size_t reasons = 0, closed = 0;

	(void)state;
	for (size_t i = 0; i < gp_conf_num_foreign; i++) {
		const struct gp_conf_foreign *at = &gp_conf_foreigners[i];

		strcat(text, i ? "," : "");
		strcat(text, at->key);
		strcat(text, ":1");
		reasons += !i || strcmp(at->why, at[-1].why);
	}
	assert_int_equal(parse(text), 0);
	assert_int_equal(num_said, 1);
	for (size_t i = 0; i < gp_conf_num_foreign; i++)
		says(gp_conf_foreigners[i].key);
	for (const char *at = said; *at; at++)
		closed += *at == ')';
	assert_int_equal(closed, reasons);
	assert_int_equal(said[strlen(said) - 2], ')');
}

static void test_lists_and_quotes(void **state)
{
	(void)state;
	assert_int_equal(parse("roundup_power2_divisions:[256:1, 512:2],"
			       "report_dir:\"a,quiet:1\",check:1"),
			 0);
	assert_string_equal(conf.report_dir, "a,quiet:1");
	assert_true(conf.check);
	assert_false(conf.quiet);
	/* Something behind the end. */
	assert_int_equal(parse("report_dir:\"a\"b,quiet:1"), 1);
	assert_true(conf.quiet);
}

/* Never closed: one complaint, and what follows still counts. */
static void test_unclosed(void **state)
{
	static const char *const texts[] = {
		"roundup_power2_divisions:[256:1,512:2",
		"roundup_power2_divisions:[256:1,512:2,>:8",
		"roundup_power2_divisions:[256:1, 512:2 ",
		"report_dir:\"/a,b/c d",
		"report_dir:\"/a,b\\\"",
		"report_dir:\"",
		"only:[python*,train",
		"report_signal:[",
	};
	char text[128];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(parse(texts[i]), 1);
		assert_int_equal(num_said, 1);
		says(strchr(texts[i], '"') ? "(the \" is never closed)"
					   : "(the [ is never closed)");
		snprintf(text, sizeof(text), "%s, quiet : 1,check:1", texts[i]);
		assert_int_equal(parse(text), 1);
		assert_int_equal(num_said, 1);
		assert_true(conf.quiet && conf.check);
	}
	/* A bracket of somebody else's does not close it. */
	assert_int_equal(parse("roundup_power2_divisions:[256:1,quiet:1,"
			       "memory_limit:[0:8GiB]"),
			 1);
	assert_true(conf.quiet);
	assert_int_equal(gp_conf_limit(&conf, 0), 8ull << 30);
	assert_false(conf.limit_is_bad);
	/* A foreign one swallows no more. */
	assert_int_equal(parse("expandable_segments_reserve:[1:2,3:4,quiet:1"),
			 0);
	assert_true(conf.quiet);
}

static void test_only(void **state)
{
	(void)state;
	assert_int_equal(parse("only:python*,train"), 0);
	assert_string_equal(conf.only, "python*,train");
	assert_int_equal(parse("only: python* , train,quiet:1,,"), 0);
	assert_string_equal(conf.only, "python*,train");
	assert_true(conf.quiet);
	assert_int_equal(parse("only:[python*, train],quiet:1"), 0);
	assert_string_equal(conf.only, "python*,train");
	assert_int_equal(parse("only python*,train,quiet True"), 0);
	assert_string_equal(conf.only, "python*,train");
	assert_true(conf.quiet);
	assert_int_equal(parse("only:a,b,only:c,d"), 0);
	assert_string_equal(conf.only, "c,d");
	says("only is given more than once; the last, only:c, holds\n");
	assert_int_equal(parse("only:[quiet,check]"), 0);
	assert_string_equal(conf.only, "quiet,check");
	assert_int_equal(num_said, 0);

	/* A key is no name, unless in brackets; it may be a slip. */
	assert_int_equal(parse("only:a,memory_limit,b"), 2);
	assert_string_equal(conf.only, "a");
	assert_true(conf.limit_is_bad);
	says("memory_limit is ignored: it has no value;");
	says("b is ignored: no such key");
	/* Names follow only where it does not end. */
	assert_int_equal(parse("only:a,quiet:1,b"), 1);
	assert_int_equal(parse("only:[a],b"), 1);
	assert_int_equal(parse("only:a,b/c"), 1);
	assert_int_equal(parse("only:a,quiet=1"), 1);
	assert_false(conf.quiet);
	/* One complaint, also of a list. */
	assert_int_equal(parse("only:/usr/bin/x,b,c,quiet:1"), 1);
	assert_int_equal(num_said, 1);
	assert_string_equal(conf.only, "*");
	assert_true(conf.quiet);
}

static void test_only_is_bounded(void **state)
{
	char text[1024] = "only:n";

	(void)state;
	for (int i = 0; i < 254; i++)
		strcat(text, ",n");
	assert_int_equal(parse(text), 0);
	assert_int_equal(strlen(conf.only), 509);
	strcat(text, ",n");
	assert_int_equal(parse(text), 0);
	assert_int_equal(strlen(conf.only), 511);
	strcat(text, ",n");
	assert_int_equal(parse(text), 1);
	says("only:n is refused (out of range), only stays [n,");
}

static void test_is_for(void **state)
{
	static const struct {
		const char *only, *name;
		bool meant;
	} rows[] = {
		{"python", "python", true},
		{"python", "python3", false},
		{"python*", "python", true},
		{"python*", "python3.11", true},
		{"python*", "pytho", false},
		{"python*", "ipython3", false},
		{"*python*", "ipython3", true},
		{"python?", "python3", true},
		{"python?", "python", false},
		{"*.py", "train.py", true},
		{"*.py", "train.py.py", true},
		{"*.py", "train.pyc", false},
		{"t*n", "train", true},
		{"t*n", "trainer", false},
		{"a*b*c", "aXbXbXc", true},
		{"a*b*c", "aXcXb", false},
		{"a**", "a", true},
		{"*", "", true},
		{"*", "anything", true},
		{"?", "", false},
		{"Python", "python", false},
		{"a,b", "b", true},
		{"a,b", "a,b", false},
		{"a,b*", "bc", true},
		{"a,b", "c", false},
		{"a,b", "", false},
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(text, sizeof(text), "only:[%s]", rows[i].only);
		assert_int_equal(parse(text), 0);
		if (gp_conf_is_for(&conf, rows[i].name) != rows[i].meant)
			fail_msg("%s and %s", rows[i].only, rows[i].name);
	}
}

static void test_small_split(void **state)
{
	(void)state;
	assert_int_equal(parse("max_split_size_mb:32"), 0);
	assert_int_equal(num_said, 0);
	assert_int_equal(parse("max_split_size_mb:8"), 0);
	assert_int_equal(conf.max_split_size, 8 << 20);
	says("max_split_size_mb:8MiB is taken, though PyTorch accepts only "
	     "20MiB (large_segment_size_mb) or more\n");
}

static void test_long_text(void **state)
{
	const size_t size = 70000;
	char *text = malloc(size + 1);

	(void)state;
	assert_non_null(text);
	memset(text, 'q', size);
	memcpy(text, "quiet:1,", 8);
	text[size] = '\0';
	assert_int_equal(parse(text), 1);
	assert_false(conf.quiet);
	says("is ignored: it is longer than 65536 bytes\n");
	assert_true(conf.limit_is_bad);
	text[65536] = '\0';
	assert_int_equal(parse(text), 1);
	assert_true(conf.quiet);
	says("qqqq... is ignored: no such key");
	assert_true(strlen(said) < 1000);
	free(text);
}

static void test_messages_are_clean(void **state)
{
	(void)state;
	assert_int_equal(parse("quiet:a\033[31mb\001"), 1);
	says("quiet:a?[31mb? is refused");
	assert_int_equal(parse("report_dir:a\033b,report_dir:a b"), 1);
	says("report_dir stays a?b;");
	/* No callback is no error. */
	assert_int_equal(gp_conf_parse("quiet:x,zzz:1", &conf, NULL, NULL), 2);
}

/* A limit that is lost is marked as such, with the sentence that says so. */
static void test_bad_limit(void **state)
{
	static const char *const bad[] = {
		"memory_limit:x",
		"memory_limit:",
		"memory_limit",
		"memory_limit=8GiB",
		"memory_limit:8",
		"Memory_Limit:8GiB",
		"memory_limt:8GiB",
		"mem_limit:8GiB",
		"limit:8GiB",
		"fraction:0.5",
		"host_limit:lots",
		"per_process_memory_fraction:1.5",
		"per_proces_memory_fraction:0.5",
		"per_process_memory_fraction:[0:0.5,1:0.8",
		"quiet:True memory_limit:8GiB",
		"memory_limit:8GiB quiet:True",
		"memory_limit:8GiB,memory_limit:x",
		"on_bad_limit:contnue,memory_limit:x",
	};
	char text[128];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(parse(bad[i]) > 0);
		if (!conf.limit_is_bad || !conf.limit_message[0])
			fail_msg("not a bad limit: %s", bad[i]);
		says(conf.limit_message);
		snprintf(text, sizeof(text), "on_bad_limit:continue,%s",
			 bad[i]);
		parse(text);
		if (i + 1 < sizeof(bad) / sizeof(bad[0]))
			assert_false(conf.limit_is_bad);
		snprintf(text, sizeof(text), "%s,enabled:False", bad[i]);
		parse(text);
		if (!strchr(bad[i], '['))
			assert_false(conf.limit_is_bad);
	}
	assert_int_equal(parse("memory_limit:8GiB,quiet:x,max_split:1"), 2);
	assert_false(conf.limit_is_bad);
	assert_string_equal(conf.limit_message, "");
	assert_int_equal(parse("per_process_memory_fraction 0.5"), 0);
	assert_false(conf.limit_is_bad);
}

/* Where 0,8 is written for 0.8, strtod() would not read this. */
static void test_locale(void **state)
{
	static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8",
					      "ru_RU.UTF-8", "de_DE"};
	char value[32];
	size_t index = 0;

	(void)state;
	/* The first that is installed. */
	for (size_t i = 0; i < sizeof(locales) / sizeof(locales[0]); i++) {
		if (setlocale(LC_ALL, locales[i]))
			break;
	}
	assert_int_equal(parse("growth_factor:0,8"), 2);
	assert_int_equal(parse("garbage_collection_threshold:0.8"), 0);
	assert_true(conf.garbage_collection_threshold == 0.8);
	while (strcmp(gp_conf_option(index)->key,
		      "garbage_collection_threshold"))
		index++;
	gp_conf_value(&conf, index, value, sizeof(value));
	setlocale(LC_ALL, "C");
	assert_string_equal(value, "0.8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_separators),
		cmocka_unit_test(test_missing_comma),
		cmocka_unit_test(test_blank_for_colon),
		cmocka_unit_test(test_no_value),
		cmocka_unit_test(test_unknown_key),
		cmocka_unit_test(test_bad_value_keeps_default),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_all_foreign),
		cmocka_unit_test(test_lists_and_quotes),
		cmocka_unit_test(test_unclosed),
		cmocka_unit_test(test_only),
		cmocka_unit_test(test_only_is_bounded),
		cmocka_unit_test(test_is_for),
		cmocka_unit_test(test_small_split),
		cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_messages_are_clean),
		cmocka_unit_test(test_bad_limit),
		cmocka_unit_test(test_locale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
