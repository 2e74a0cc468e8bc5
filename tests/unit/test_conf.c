/*
 * Defaults, every kind of value, printing, and the table itself.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "conf/value.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static size_t index_of(const char *key)
{
	for (size_t i = 0; i < gp_conf_count(); i++) {
		if (!strcmp(gp_conf_option(i)->key, key))
			return i;
	}
	fail_msg("no option %s", key);
	return 0;
}

/* The value that "key:text" has afterwards, or "refused". */
static const char *value_of(const char *key, const char *text)
{
	static char value[512];
	static struct gp_conf conf;
	char setting[8192];

	snprintf(setting, sizeof(setting), "%s:%s", key, text);
	if (gp_conf_parse(setting, &conf, NULL, NULL))
		return "refused";
	return gp_conf_value(&conf, index_of(key), value, sizeof(value));
}

#define CHECK(key, text, expected) \
	assert_string_equal(value_of(key, text), expected)

static void test_defaults(void **state)
{
	struct gp_conf conf;

	(void)state;
	gp_conf_defaults(&conf);
	assert_true(conf.enabled);
	assert_false(conf.quiet);
	assert_false(conf.check);
	assert_int_equal(conf.backend, GP_BACKEND_NATIVE);
	assert_string_equal(conf.report_dir, "");
	assert_string_equal(conf.report_name, "gpupool-%e-%p");
	assert_int_equal(conf.report_format,
			 GP_CONF_FORMAT_TEXT | GP_CONF_FORMAT_JSON);
	assert_true(conf.warn_at == 0);
	assert_string_equal(conf.only, "*");
	assert_int_equal(conf.report_signal, SIGUSR1);
	assert_true(conf.expandable_segments);
	assert_int_equal(conf.cache_policy, GP_CONF_DECAY);
	assert_int_equal(conf.reuse, GP_CONF_REUSE_AUTO);
	assert_int_equal(conf.free_order, GP_CONF_ORDER_AUTO);
	assert_int_equal(conf.free_barrier, GP_CONF_BARRIER_AUTO);
	assert_int_equal(conf.decay_ms, 10000);
	assert_true(conf.growth_factor == 1.0);
	assert_int_equal(conf.large_segment_size, 20 * MIB);
	assert_true(conf.max_split_size == UINT64_MAX);
	assert_int_equal(conf.max_non_split_rounding, 20 * MIB);
	assert_true(conf.garbage_collection_threshold == 0);
	assert_true(conf.overlap_slack == 0.01);
	assert_false(conf.zero_memory);
	assert_false(conf.poison_free);
	assert_int_equal(conf.guard_bytes, 0);
	assert_true(conf.ring_events);
	assert_int_equal(conf.ring_size, 4 * MIB);
	assert_int_equal(conf.keep_reports, 20);
	assert_int_equal(conf.keep_reports_size, 128 * MIB);
	assert_int_equal(conf.stacks, GP_CONF_STACKS_OOM);
	assert_int_equal(conf.sample_bytes, MIB);
	assert_int_equal(conf.neighbour_wait, 200);
	assert_int_equal(conf.reserve_floor, 0);
	for (unsigned i = 0; i < GP_CONF_DEVICES + 2; i++) {
		assert_true(gp_conf_limit(&conf, i) == UINT64_MAX);
		assert_true(gp_conf_fraction(&conf, i) == 1.0);
	}
	assert_true(conf.host_limit == UINT64_MAX);
	assert_true(conf.count_context && conf.virtualize);
	assert_int_equal(conf.on_bad_limit, GP_CONF_BAD_LIMIT_REFUSE);
	assert_false(conf.limit_is_bad);
	for (int i = 0; i < GP_CONF_DIVISIONS; i++)
		assert_int_equal(conf.roundup_power2_divisions[i], 0);
	for (size_t i = 0; i < gp_conf_count(); i++)
		assert_true(gp_conf_is_default(&conf, i));
}

/* gp_conf_defaults() cannot say that a row's default is no value. */
static void test_every_default_reads(void **state)
{
	char value[512];
	struct gp_conf conf;

	(void)state;
	gp_conf_defaults(&conf);
	for (size_t i = 0; i < gp_conf_count(); i++) {
		const struct gp_conf_row *row = &gp_conf_rows[i];
		const struct gp_span text = {row->initial,
					     strlen(row->initial)};

		assert_int_equal(gp_conf_read(row, text, &conf), 0);
		assert_string_equal(
			gp_conf_value(&conf, i, value, sizeof(value)),
			row->initial);
		assert_true(strlen(row->option.key) > 0);
		/* The key says what a bare number is. */
		assert_int_equal(row->type == GP_TYPE_SIZE,
				 strstr(row->option.key, "_mb") != NULL);
		assert_true(strlen(row->option.accepted) > 0);
		assert_true(strlen(row->option.help) > 0);
	}
}

static void test_bools(void **state)
{
	(void)state;
	CHECK("quiet", "True", "True");
	CHECK("quiet", "true", "True");
	CHECK("quiet", "TRUE", "True");
	CHECK("quiet", "1", "True");
	CHECK("enabled", "False", "False");
	CHECK("enabled", "fALSE", "False");
	CHECK("enabled", "0", "False");
	CHECK("quiet", "yes", "refused");
	CHECK("quiet", "01", "refused");
	CHECK("quiet", "Tru", "refused");
	CHECK("quiet", "Truee", "refused");
	CHECK("quiet", "", "refused");
}

static void test_counts(void **state)
{
	(void)state;
	CHECK("keep_reports", "0", "0");
	CHECK("keep_reports", "10000", "10000");
	CHECK("keep_reports", "10001", "refused");
	CHECK("keep_reports", "-1", "refused");
	CHECK("keep_reports", "1.5", "refused");
	CHECK("keep_reports", "5MiB", "refused");
	CHECK("keep_reports", "all", "refused");
}

static void test_runtime_directory(void **state)
{
	(void)state;
	CHECK("ring_events", "False", "False");
	CHECK("ring_size", "64KiB", "64KiB");
	CHECK("ring_size", "65536", "64KiB"); /* bytes */
	CHECK("ring_size", "16", "refused");
	CHECK("ring_size", "63KiB", "refused");
	CHECK("ring_size", "2GiB", "refused");
	CHECK("ring_size", "unlimited", "refused");
	CHECK("keep_reports_size", "0", "0B");
	CHECK("neighbour_wait", "0", "0");
	CHECK("neighbour_wait", "1s", "1000");
	CHECK("neighbour_wait", "61s", "refused");
	CHECK("reserve_floor", "2GiB", "2GiB");
	CHECK("reserve_floor", "512", "512B");
	CHECK("reserve_floor", "unlimited", "refused");
}

static void test_choices(void **state)
{
	(void)state;
	CHECK("backend", "native", "native");
	CHECK("backend", "passthrough", "passthrough");
	CHECK("backend", "cudaMallocAsync", "cudaMallocAsync");
	CHECK("cache_policy", "keep", "keep");
	CHECK("cache_policy", "decay", "decay");
	CHECK("cache_policy", "none", "none");
	CHECK("cache_policy", "nonee", "refused");
	CHECK("reuse", "auto", "auto");
	CHECK("reuse", "sync", "sync");
	CHECK("reuse", "async", "refused");
	CHECK("free_order", "auto", "auto");
	CHECK("free_order", "full", "full");
	CHECK("free_order", "reuse", "reuse");
	CHECK("free_order", "sync", "refused");
	CHECK("free_barrier", "auto", "auto");
	CHECK("free_barrier", "always", "always");
	CHECK("free_barrier", "never", "never");
	CHECK("free_barrier", "True", "refused");
}

static void test_signals(void **state)
{
	char text[16], expected[16];

	(void)state;
	CHECK("report_signal", "SIGUSR1", "SIGUSR1");
	CHECK("report_signal", "USR2", "SIGUSR2");
	CHECK("report_signal", "usr2", "SIGUSR2");
	CHECK("report_signal", "12", "SIGUSR2");
	CHECK("report_signal", "none", "none");
	CHECK("report_signal", "0", "none");
	CHECK("report_signal", "off", "none");
	CHECK("report_signal", "RTMIN", "SIGRTMIN+0");
	CHECK("report_signal", "SIGRTMIN+2", "SIGRTMIN+2");
	snprintf(expected, sizeof(expected), "SIGRTMIN+%d",
		 SIGRTMAX - 1 - SIGRTMIN);
	CHECK("report_signal", "SIGRTMAX-1", expected);
	CHECK("report_signal", "SIGRTMIN-1", "refused");
	CHECK("report_signal", "SIGRTMAX+1", "refused");
	CHECK("report_signal", "SIGRTMIN+99", "refused");
	CHECK("report_signal", "SIGRTMIN+", "refused");
	CHECK("report_signal", "SIG", "refused");
	CHECK("report_signal", "SIGKILL", "refused");
	CHECK("report_signal", "SIGSEGV", "refused");
	CHECK("report_signal", "-1", "refused");
	CHECK("report_signal", "65", "refused");
	CHECK("report_signal", "99999999999999999999", "refused");
	/* Numbers that cannot be caught, or are faults, or are glibc's. */
	for (int i = 1; i < 65; i++) {
		const bool bad = i == SIGKILL || i == SIGSTOP || i == SIGSEGV ||
				 i == SIGBUS || i == SIGFPE || i == SIGILL ||
				 i == SIGTRAP || i == SIGABRT || i == SIGSYS ||
				 i == SIGSTKFLT || (i > 31 && i < SIGRTMIN);

		snprintf(text, sizeof(text), "%d", i);
		if (bad)
			CHECK("report_signal", text, "refused");
		else
			assert_string_not_equal(value_of("report_signal", text),
						"refused");
	}
}

static void test_sizes(void **state)
{
	(void)state;
	CHECK("max_split_size_mb", "128", "128MiB");
	CHECK("max_split_size_mb", "32", "32MiB");
	CHECK("max_split_size_mb", "512MB", "512MiB");
	CHECK("max_split_size_mb", "512mib", "512MiB");
	CHECK("max_split_size_mb", "512 MiB", "512MiB");
	CHECK("max_split_size_mb", "8GiB", "8GiB");
	CHECK("max_split_size_mb", "1.5G", "1536MiB");
	CHECK("max_split_size_mb", "2097152B", "2MiB");
	CHECK("max_split_size_mb", "2048KiB", "2MiB");
	CHECK("max_split_size_mb", "2097151B", "refused");
	CHECK("max_split_size_mb", "1T", "1TiB");
	CHECK("max_split_size_mb", "unlimited", "unlimited");
	CHECK("max_split_size_mb", "0", "refused");
	CHECK("max_split_size_mb", "-5", "refused");
	CHECK("max_split_size_mb", "+5", "refused");
	CHECK("max_split_size_mb", "5 5", "refused");
	CHECK("max_split_size_mb", "5e3", "refused");
	CHECK("max_split_size_mb", "0x20", "refused");
	CHECK("max_split_size_mb", "5.", "refused");
	CHECK("max_split_size_mb", ".5G", "refused");
	CHECK("max_split_size_mb", "MiB", "refused");
	CHECK("max_split_size_mb", "17592186044416", "refused"); /* 2^64 */
	/* 2^64 + 2^26, which must not come out as 2^26 */
	CHECK("max_split_size_mb", "17592186044480", "refused");
	CHECK("max_split_size_mb", "18446744073776660480B", "refused");
	CHECK("max_split_size_mb", "99999999999999999999", "refused");
	CHECK("max_split_size_mb", "18446744073709551616", "refused");
	CHECK("large_segment_size_mb", "10", "refused");
	CHECK("large_segment_size_mb", "11", "11MiB");
	CHECK("large_segment_size_mb", "10.5", "10752KiB");
	CHECK("large_segment_size_mb", "1TiB", "1TiB");
	CHECK("large_segment_size_mb", "1025GiB", "refused");
	CHECK("large_segment_size_mb", "unlimited", "refused");
	CHECK("max_non_split_rounding_mb", "64", "64MiB");
	CHECK("max_non_split_rounding_mb", "0.5", "refused");
}

static void test_decimals(void **state)
{
	struct gp_conf conf;

	(void)state;
	CHECK("garbage_collection_threshold", "0.8", "0.8");
	CHECK("garbage_collection_threshold", "0.123456789", "0.123456789");
	CHECK("garbage_collection_threshold", "0.1234567891", "refused");
	CHECK("garbage_collection_threshold", "0.000000001", "0.000000001");
	CHECK("garbage_collection_threshold", "off", "off");
	CHECK("garbage_collection_threshold", "0", "refused");
	CHECK("garbage_collection_threshold", "0.0", "refused");
	CHECK("garbage_collection_threshold", "1", "refused");
	CHECK("garbage_collection_threshold", "1.0", "refused");
	CHECK("garbage_collection_threshold", "0.8 ", "0.8");
	CHECK("garbage_collection_threshold", "nan", "refused");
	CHECK("garbage_collection_threshold", "80%", "refused");
	CHECK("growth_factor", "1", "1.0");
	CHECK("growth_factor", "1.25", "1.25");
	CHECK("growth_factor", "16", "16.0");
	CHECK("growth_factor", "0.99", "refused");
	CHECK("growth_factor", "16.000000001", "refused");
	CHECK("growth_factor", "inf", "refused");
	gp_conf_parse("garbage_collection_threshold:0.8", &conf, NULL, NULL);
	assert_true(conf.garbage_collection_threshold == 0.8);
}

static void test_times(void **state)
{
	(void)state;
	CHECK("cache_decay_ms", "500", "500");
	CHECK("cache_decay_ms", "500ms", "500");
	CHECK("cache_decay_ms", "2s", "2000");
	CHECK("cache_decay_ms", "0.5s", "500");
	CHECK("cache_decay_ms", "10", "10");
	CHECK("cache_decay_ms", "9", "refused");
	CHECK("cache_decay_ms", "0", "refused");
	CHECK("cache_decay_ms", "86400000", "86400000");
	CHECK("cache_decay_ms", "86400001", "refused");
	CHECK("cache_decay_ms", "5m", "refused");
}

static void test_divisions(void **state)
{
	const char key[] = "roundup_power2_divisions";
	struct gp_conf conf;

	(void)state;
	CHECK(key, "4", "4");
	CHECK(key, "1", "1");
	CHECK(key, "0", "off");
	CHECK(key, "off", "off");
	CHECK(key, "3", "refused");
	CHECK(key, "65536", "65536");
	CHECK(key, "131072", "refused");
	CHECK(key, "[256:1,512:2,1024:4,>:8]", "[256:1,512:2,1024:4,>:8]");
	CHECK(key, "[ 256 : 1, 512 : 2 , 1024:4 ,\t> : 8 ]",
	      "[256:1,512:2,1024:4,>:8]");
	CHECK(key, "[1:8,2:8,4:8,>:8]", "8");
	CHECK(key, "[>:8]", "8");
	CHECK(key, "[32768:2]", "2");
	CHECK(key, "[256:4,1024:2]", "[256:4,1024:2]");
	CHECK(key, "[256:4,1024:0,>:2]", "[256:4,1024:0,>:2]");
	CHECK(key, "[256:0,512:2]", "[256:0,512:2]");
	CHECK(key, "[65536:2]", "refused");
	CHECK(key, "[3:2]", "refused");
	CHECK(key, "[0:2]", "refused");
	CHECK(key, "[256:3]", "refused");
	CHECK(key, "[512:2,256:1]", "refused");
	CHECK(key, "[256:2,256:1]", "refused");
	CHECK(key, "[>:2,256:1]", "refused");
	CHECK(key, "[>:2,>:1]", "refused");
	CHECK(key, "[]", "refused");
	CHECK(key, "[256]", "refused");
	CHECK(key, "[256:]", "refused");
	CHECK(key, "[:4]", "refused");
	CHECK(key, "[256:1,]", "refused");
	CHECK(key, "[256:1", "refused");
	CHECK(key, "256:1]", "refused");
	CHECK(key, "[256:1]]", "refused");
	CHECK(key, "[256:1]x", "refused");

	/* PyTorch's meaning, slot by slot. */
	gp_conf_parse("roundup_power2_divisions:[256:1,512:2,2048:4,>:8]",
		      &conf, NULL, NULL);
	for (int i = 0; i < GP_CONF_DIVISIONS; i++) {
		const uint32_t expected = i <= 8    ? 1
					  : i == 9  ? 2
					  : i == 10 ? 0
					  : i == 11 ? 4
						    : 8;

		assert_int_equal(conf.roundup_power2_divisions[i], expected);
	}
}

static void test_limits(void **state)
{
	struct gp_conf conf;

	(void)state;
	CHECK("memory_limit", "8GiB", "8GiB");
	CHECK("memory_limit", "8 GB", "8GiB");
	CHECK("memory_limit", "1048576", "1MiB"); /* bytes */
	CHECK("memory_limit", "unlimited", "unlimited");
	CHECK("memory_limit", "8", "refused");
	CHECK("memory_limit", "0", "refused");
	CHECK("memory_limit", "off", "refused");
	CHECK("memory_limit", "-1GiB", "refused");
	CHECK("memory_limit", "[0:8GiB, 1 : 4GiB ]", "[0:8GiB,1:4GiB]");
	CHECK("memory_limit", "[1:4GiB,0:8GiB]", "[0:8GiB,1:4GiB]");
	CHECK("memory_limit", "[1:4GiB]", "[1:4GiB]");
	CHECK("memory_limit", "[>:4GiB]", "4GiB");
	CHECK("memory_limit", "[1:unlimited,>:4GiB]", "[1:unlimited,>:4GiB]");
	CHECK("memory_limit", "[63:4GiB]", "[62:unlimited,>:4GiB]");
	CHECK("memory_limit", "[64:4GiB]", "refused");
	CHECK("memory_limit", "[0:4GiB,0:4GiB]", "refused");
	CHECK("memory_limit", "[>:4GiB,0:4GiB]", "refused");
	CHECK("memory_limit", "[0:4GiB,]", "refused");
	CHECK("memory_limit", "[]", "refused");
	CHECK("memory_limit", "[4GiB]", "refused");
	CHECK("memory_limit", "[0:8]", "refused");
	CHECK("host_limit", "1.5GiB", "1536MiB");
	CHECK("host_limit", "8", "refused");
	CHECK("host_limit", "[0:8GiB]", "refused");
	CHECK("per_process_memory_fraction", "0.5", "0.5");
	CHECK("per_process_memory_fraction", "0", "0.0");
	CHECK("per_process_memory_fraction", "1", "1.0");
	CHECK("per_process_memory_fraction", "1.000000001", "refused");
	CHECK("per_process_memory_fraction", "50%", "refused");
	CHECK("per_process_memory_fraction", "off", "refused");
	CHECK("per_process_memory_fraction", "[0:0.5,1:0.8]", "[0:0.5,1:0.8]");
	CHECK("per_process_memory_fraction", "[0:0.5,1:2]", "refused");
	CHECK("on_bad_limit", "continue", "continue");
	CHECK("on_bad_limit", "Refuse", "refuse");
	CHECK("on_bad_limit", "abort", "refused");

	gp_conf_parse("memory_limit:[1:4GiB,>:2GiB],"
		      "per_process_memory_fraction:[0:0.5]",
		      &conf, NULL, NULL);
	assert_true(gp_conf_limit(&conf, 0) == UINT64_MAX);
	assert_int_equal(gp_conf_limit(&conf, 1), 4 * GIB);
	assert_int_equal(gp_conf_limit(&conf, 2), 2 * GIB);
	assert_int_equal(gp_conf_limit(&conf, 1000), 2 * GIB);
	assert_true(gp_conf_fraction(&conf, 0) == 0.5);
	assert_true(gp_conf_fraction(&conf, 1) == 1.0);
	assert_true(gp_conf_fraction(&conf, 1000) == 1.0);
}

static void test_paths(void **state)
{
	char path[2 * PATH_MAX + 16];
	struct gp_conf conf;
	char value[16];

	(void)state;
	CHECK("report_dir", "/logs", "/logs");
	CHECK("report_dir", "a:b", "a:b");
	CHECK("report_dir", "/a[1]", "/a[1]");
	CHECK("report_dir", "C:\\x", "C:\\x");
	CHECK("report_dir", "", "\"\"");
	CHECK("report_dir", "\"\"", "\"\"");
	CHECK("report_dir", "\"/my logs, all\"", "\"/my logs, all\"");
	CHECK("report_dir", "\"/plain\"", "/plain");
	CHECK("report_dir", "\"a\\\"b\\\\c d\"", "\"a\\\"b\\\\c d\"");
	CHECK("report_dir", "/my logs", "refused");
	CHECK("report_dir", "\"/my\"logs", "refused");
	CHECK("report_dir", "/my\"logs\"", "refused");
	CHECK("report_dir", "\"/my", "refused");
	gp_conf_parse("report_dir:\"a\\\"b\\\\c d\",quiet:1", &conf, NULL,
		      NULL);
	assert_string_equal(conf.report_dir, "a\"b\\c d");
	assert_true(conf.quiet);

	memset(path, 'x', sizeof(path));
	path[PATH_MAX - 1] = '\0';
	assert_int_equal(strlen(value_of("report_dir", path)), 511);
	path[PATH_MAX - 1] = 'x';
	path[PATH_MAX] = '\0';
	CHECK("report_dir", path, "refused");
	path[PATH_MAX] = 'x';
	path[sizeof(path) - 1] = '\0';
	CHECK("report_dir", path, "refused");

	/* Cut with dots where there is no room. */
	gp_conf_parse("report_dir:/a/rather/long/path", &conf, NULL, NULL);
	gp_conf_value(&conf, index_of("report_dir"), value, sizeof(value));
	assert_string_equal(value, "/a/rather/lo...");
	gp_conf_parse("report_dir:\"/a/rather, long/path\"", &conf, NULL, NULL);
	gp_conf_value(&conf, index_of("report_dir"), value, sizeof(value));
	assert_string_equal(value, "\"/a/rather, ...");
}

/* For people, and for JSON. */
static void test_plain(void **state)
{
	const size_t dir = index_of("report_dir");
	struct gp_conf conf;
	char value[32];

	(void)state;
	gp_conf_parse("report_dir:\"/my \\\"logs, 1\",check:1", &conf, NULL,
		      NULL);
	assert_string_equal(gp_conf_plain(&conf, dir, value, sizeof(value)),
			    "/my \"logs, 1");
	assert_string_equal(gp_conf_plain(&conf, dir, value, 9), "/my \"...");
	assert_string_equal(
		gp_conf_plain(&conf, index_of("check"), value, sizeof(value)),
		"True");
	assert_string_equal(
		gp_conf_plain(&conf, gp_conf_count(), value, sizeof(value)),
		"");
	value[0] = 'x';
	gp_conf_plain(&conf, dir, value, 0);
	assert_int_equal(value[0], 'x');
	gp_conf_defaults(&conf);
	assert_string_equal(gp_conf_plain(&conf, dir, value, sizeof(value)),
			    "");
}

static void test_is_default(void **state)
{
	struct gp_conf conf;
	char value[64];

	(void)state;
	gp_conf_parse("large_segment_size_mb:64,quiet:False", &conf, NULL,
		      NULL);
	for (size_t i = 0; i < gp_conf_count(); i++)
		assert_int_equal(gp_conf_is_default(&conf, i),
				 i != index_of("large_segment_size_mb"));
	/* A default that follows another option. */
	assert_int_equal(conf.max_non_split_rounding, 64 * MIB);
	gp_conf_parse("large_segment_size_mb:64,max_non_split_rounding_mb:20",
		      &conf, NULL, NULL);
	assert_int_equal(conf.max_non_split_rounding, 20 * MIB);
	assert_false(gp_conf_is_default(&conf,
					index_of("max_non_split_rounding_mb")));
	/* Off the end of the table. */
	assert_null(gp_conf_option(gp_conf_count()));
	assert_true(gp_conf_is_default(&conf, gp_conf_count()));
	assert_string_equal(
		gp_conf_value(&conf, gp_conf_count(), value, sizeof(value)),
		"");
	value[0] = 'x';
	gp_conf_value(&conf, 0, value, 0);
	assert_int_equal(value[0], 'x');
}

/* Whatever was set is printed so that it reads back to the same. */
static void test_round_trip(void **state)
{
	static const char text[] =
		"enabled:0,backend:passthrough,quiet:1,"
		"report_dir:\"/x y/\\\"z\",report_signal:RTMIN+3,check:1,"
		"expandable_segments:0,cache_policy:keep,cache_decay_ms:1234,"
		"growth_factor:1.333333333,large_segment_size_mb:33.25,"
		"max_split_size_mb:7654321,max_non_split_rounding_mb:3GiB,"
		"garbage_collection_threshold:0.7,"
		"reuse:sync,free_order:full,free_barrier:never,"
		"zero_memory:1,poison_free:1,guard_bytes:4096,"
		"overlap_slack:0.05,stacks:all,sample_bytes:8192,"
		"only:[train,python*,?sh],"
		"memory_limit:[0:8GiB,3:512MB,>:1234567],"
		"per_process_memory_fraction:[1:0.25,0:0.5],"
		"host_limit:3GiB,count_context:0,virtualize:0,"
		"on_bad_limit:continue,"
		"report_name:%p.%t,report_format:json,warn_at:0.8,"
		"ring_events:0,ring_size:1MB,keep_reports:3,"
		"keep_reports_size:5,neighbour_wait:7,reserve_floor:9,"
		"roundup_power2_divisions:[4:16,16:0,64:8,>:2]";
	char again[4096], value[512];
	struct gp_conf conf, copy;
	size_t used = 0;

	(void)state;
	assert_int_equal(gp_conf_parse(text, &conf, NULL, NULL), 0);
	for (size_t i = 0; i < gp_conf_count(); i++) {
		assert_false(gp_conf_is_default(&conf, i));
		used += (size_t)snprintf(
			again + used, sizeof(again) - used, "%s%s:%s",
			i ? "," : "", gp_conf_option(i)->key,
			gp_conf_value(&conf, i, value, sizeof(value)));
	}
	assert_int_equal(gp_conf_parse(again, &copy, NULL, NULL), 0);
	assert_memory_equal(&conf, &copy, sizeof(conf));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_every_default_reads),
		cmocka_unit_test(test_bools),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_runtime_directory),
		cmocka_unit_test(test_choices),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_decimals),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_divisions),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_is_default),
		cmocka_unit_test(test_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
