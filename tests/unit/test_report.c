/*
 * The report's content: whole pages against files that a person has read, and
 * what changes with the figures.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "stats/report_impl.h"
#include "stats/utf8.h"
#include "tests/support/sample_report.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static char page[1 << 18];

/* The report as text or JSON, through a file as in real life. */
static const char *print(const struct gp_report *report, bool json)
{
	FILE *file = tmpfile();
	size_t len;

	assert_non_null(file);
	errno = 77;
	assert_int_equal(gp_report_print(report, json, fileno(file)), 0);
	assert_int_equal(errno, 77);
	rewind(file);
	len = fread(page, 1, sizeof(page) - 1, file);
	page[len] = '\0';
	fclose(file);
	return page;
}

/* tests/golden/NAME, above the build tree that this program is in. */
static FILE *open_golden(const char *name, const char *mode)
{
	char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 256);

	assert_true(len > 0);
	path[len] = '\0';
	for (char *slash; (slash = strrchr(path, '/'));) {
		strcpy(slash, "/tests/golden");
		if (!access(path, X_OK)) {
			snprintf(slash, 256, "/tests/golden/%s", name);
			return fopen(path, mode);
		}
		*slash = '\0';
	}
	fail_msg("no tests/golden above this program");
	return NULL;
}

/* GP_WRITE_GOLDEN=1 writes the files anew: read them before you commit. */
static void check_golden(const char *name, const char *text)
{
	static char golden[sizeof(page)];
	FILE *file;
	size_t len;

	if (getenv("GP_WRITE_GOLDEN")) {
		file = open_golden(name, "w");
		assert_non_null(file);
		fputs(text, file);
		assert_int_equal(fclose(file), 0);
	}
	file = open_golden(name, "r");
	assert_non_null(file);
	len = fread(golden, 1, sizeof(golden) - 1, file);
	golden[len] = '\0';
	fclose(file);
	assert_string_equal(text, golden);
}

static void test_golden(void **state)
{
	struct gp_report *report;

	(void)state;
	report = sample_report(GP_REPORT_EXIT);
	check_golden("report-exit.txt", print(report, false));
	check_golden("report-exit.json", print(report, true));
	report = sample_report(GP_REPORT_OOM);
	check_golden("report-oom.txt", print(report, false));
	check_golden("report-oom.json", print(report, true));
	report = sample_report(GP_REPORT_WARN);
	check_golden("report-warn.txt", print(report, false));
	check_golden("report-warn.json", print(report, true));
	report = sample_report(GP_REPORT_SIGNAL);
	sample_add_pool(report);
	check_golden("report-signal-2-pools.txt", print(report, false));
	check_golden("report-signal-2-pools.json", print(report, true));
}

static void has(const char *text)
{
	/* Wrapped lines count as one. */
	for (char *c = page; *c; c++) {
		if (*c == '\n')
			*c = ' ';
	}
	if (!strstr(page, text))
		fail_msg("missing: %s\nin: %s", text, page);
}

static void lacks(const char *text)
{
	if (strstr(page, text))
		fail_msg("not expected: %s\nin: %s", text, page);
}

/* At most 80 columns, no trailing blanks, no control characters. */
static void check_page(void)
{
	size_t columns = 0, left = strlen(page);
	const char *at = page;
	char last = '\n';

	assert_true(left > 0);
	while (left) {
		const size_t part = gp_utf8_length(at, left);

		assert_true(part > 0);
		if (*at == '\n') {
			assert_true(last != ' ');
			columns = 0;
		} else {
			assert_true((unsigned char)*at >= ' ');
			assert_true(*at != 0x7f);
			assert_true(++columns <= 80);
		}
		last = *at;
		at += part;
		left -= part;
	}
	assert_int_equal(last, '\n');
}

static void test_page_fits(void **state)
{
	struct gp_report *report;

	(void)state;
	for (int reason = GP_REPORT_EXIT; reason <= GP_REPORT_WARN; reason++) {
		report = sample_report((enum gp_report_reason)reason);
		print(report, false);
		check_page();
		/* Figures as large as they can be, and longest names. */
		sample_add_pool(report);
		memset(&report->pools[0].stats, 0xfe,
		       sizeof(report->pools[0].stats));
		memset(report->kinds, 0xfe, sizeof(report->kinds));
		memset(report->exe, 'x', sizeof(report->exe) - 1);
		memset(report->pools[0].device_name, 'y',
		       sizeof(report->pools[0].device_name) - 1);
		report->calls_saved = UINT64_MAX;
		report->now_unix_ns = UINT64_MAX;
		print(report, false);
		check_page();
		/* And none. */
		memset(report->pools, 0, sizeof(report->pools));
		memset(report->kinds, 0, sizeof(report->kinds));
		memset(report->exe, 0, sizeof(report->exe));
		report->now_unix_ns = report->start_unix_ns = 0;
		report->num_settings = report->num_notes = 0;
		print(report, false);
		check_page();
	}
}

static void test_exit_words(void **state)
{
	struct gp_report *report = sample_report(GP_REPORT_EXIT);
	struct gp_pool_stats *stats = &report->pools[0].stats;

	(void)state;
	print(report, false);
	has("At the end 57 allocations of 5.00 GiB together had not been "
	    "freed.");
	has("2 requests were refused for lack of memory.");
	stats->allocation.current = 1;
	stats->num_ooms = 1;
	print(report, false);
	has("At the end 1 allocation of");
	has("1 request was refused");
	stats->allocation.current = 0;
	stats->num_ooms = 0;
	print(report, false);
	has("Everything was freed.");
	lacks("refused for");
	lacks("At the end");
	report->reason = GP_REPORT_SIGNAL;
	print(report, false);
	has("on a signal");
	has("Nothing is allocated now.");
}

static void test_growth_of_a_short_run(void **state)
{
	struct gp_report *report = sample_report(GP_REPORT_EXIT);

	(void)state;
	report->sites[0].since_ns = 60000000000;
	print(report, false);
	has("grows by 3.00 GiB an hour");
	report->sites[0].since_ns--;
	report->num_peak_sites = report->num_growing_sites = 0;
	print(report, false);
	lacks("an hour");
	print(report, true);
	has("\"growth_bytes_per_hour\": 3221225472");
}

static void test_nothing_used(void **state)
{
	struct gp_report *report = sample_report(GP_REPORT_EXIT);

	(void)state;
	report->num_pools = report->num_devices = 0;
	report->num_notes = 0;
	report->calls_saved = report->driver_calls = 0;
	memset(report->kinds, 0, sizeof(report->kinds));
	/* The clock was set back meanwhile. */
	report->now_unix_ns = report->start_unix_ns - 1;
	print(report, false);
	has("In 0 ns the program took nothing from the pool.");
	has("Outside the pool ---------------- Nothing.");
	lacks("Notes");
	lacks("Device");
	lacks("the driver was called");
	print(report, true);
	has("\"pools\": [],");
	has("\"notes\": []");
	has("\"peak_use_percent\": null");
}

static void test_json_strings(void **state)
{
	struct gp_report *report = sample_report(GP_REPORT_EXIT);
	static const char *const notes[] = {
		"\x01\x1f\"\\\n\t/\x7f",
		"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		"\xff \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80 \xe2\x82",
	};

	(void)state;
	report->notes = notes;
	report->num_notes = 3;
	print(report, true);
	has("\"\\u0001\\u001f\\\"\\\\\\n\\t/\\u007f\"");
	has("\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
	has("\"\\ufffd \\ufffd\\ufffd \\ufffd\\ufffd\\ufffd "
	    "\\ufffd\\ufffd\\ufffd\\ufffd \\ufffd\\ufffd\"");
	print(report, false);
	check_page();
	has("- ??\"\\??"
	    "/?");
	has("- caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
	has("- \xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd");
}

static void test_exe_names(void **state)
{
	struct gp_report *report = sample_report(GP_REPORT_EXIT);
	char name[256];

	(void)state;
	strcpy(report->exe, "/opt/a b/train (deleted)");
	assert_string_equal(gp_report_exe(report->exe, name, sizeof(name)),
			    "train");
	strcpy(report->exe, "train");
	assert_string_equal(gp_report_exe(report->exe, name, sizeof(name)),
			    "train");
	strcpy(report->exe, "/ (deleted)");
	assert_string_equal(gp_report_exe(report->exe, name, sizeof(name)),
			    " (deleted)");
	strcpy(report->exe, "/opt/");
	assert_string_equal(gp_report_exe(report->exe, name, sizeof(name)),
			    "unknown");
	strcpy(report->exe, "");
	assert_string_equal(gp_report_exe(report->exe, name, sizeof(name)),
			    "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_page_fits),
		cmocka_unit_test(test_exit_words),
		cmocka_unit_test(test_growth_of_a_short_run),
		cmocka_unit_test(test_nothing_used),
		cmocka_unit_test(test_json_strings),
		cmocka_unit_test(test_exe_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
