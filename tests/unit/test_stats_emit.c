/*
 * The emitter by itself: layout of the page, form of the JSON, errors.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "stats/emit.h"
#include "stats/report.h"

static char output[1 << 16];

/* What tell() emits. */
static const char *emit(void (*tell)(struct gp_emit *), bool json)
{
	FILE *file = tmpfile();
	struct gp_emit emitter;
	size_t len;

	assert_non_null(file);
	gp_emit_init(&emitter, fileno(file), json);
	tell(&emitter);
	assert_int_equal(gp_emit_finish(&emitter), 0);
	rewind(file);
	len = fread(output, 1, sizeof(output) - 1, file);
	output[len] = '\0';
	fclose(file);
	return output;
}

static void every_unit(struct gp_emit *e)
{
	gp_emit_object(e, NULL);
	gp_emit_number(e, "bytes", GP_UNIT_BYTES, 2048);
	gp_emit_number(e, "unknown", GP_UNIT_BYTES, GP_UNKNOWN);
	gp_emit_number(e, "count", GP_UNIT_COUNT, 12345);
	gp_emit_number(e, "pid", GP_UNIT_PLAIN, 12345);
	gp_emit_number(e, "ns", GP_UNIT_NS, 12345);
	gp_emit_number(e, "time", GP_UNIT_TIME, 86400000000000);
	gp_emit_number(e, "share", GP_UNIT_PERCENT, 123);
	gp_emit_number(e, "no_share", GP_UNIT_PERCENT, GP_UNKNOWN);
	gp_emit_number(e, "address", GP_UNIT_ADDRESS, 0xabc);
	gp_emit_number(e, "most", GP_UNIT_PLAIN, UINT64_MAX);
	gp_emit_bool(e, "yes", true);
	gp_emit_bool(e, "no", false);
	gp_emit_string(e, "text", "a b");
	gp_emit_again(e, GP_UNIT_COUNT, 7);
	gp_emit_line(e);
	gp_emit_close(e);
}

/* A line of 74, then one in parentheses. */
static void parenthesis(struct gp_emit *e)
{
	gp_emit_object(e, NULL);
	gp_emit_words(e, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
			 "aaaaaaaaaaaaaaaaaaaaaa (");
	gp_emit_number(e, "bytes", GP_UNIT_BYTES, 10978000);
	gp_emit_words(e, "of that), (");
	gp_emit_number(e, "percent", GP_UNIT_PERCENT, 123);
	gp_emit_words(e, ").");
	gp_emit_line(e);
	gp_emit_close(e);
}

static void test_parentheses_do_not_part_figures(void **state)
{
	const char *page;

	(void)state;
	page = emit(parenthesis, false);
	assert_non_null(strstr(page, "a\n(10.47 MiB of that), (12.3 %).\n"));
}

static void test_units(void **state)
{
	(void)state;
	assert_string_equal(emit(every_unit, false),
			    "2.00 KiB unknown 12,345 12345 12.35 us 1970-01-02 "
			    "00:00:00 UTC 12.3 % - 0xabc\n"
			    "18446744073709551615 yes no a b 7\n");
	assert_string_equal(emit(every_unit, true),
			    "{\n"
			    "  \"bytes\": 2048,\n"
			    "  \"unknown\": null,\n"
			    "  \"count\": 12345,\n"
			    "  \"pid\": 12345,\n"
			    "  \"ns\": 12345,\n"
			    "  \"time\": 86400000000000,\n"
			    "  \"share\": 12.3,\n"
			    "  \"no_share\": null,\n"
			    "  \"address\": \"0xabc\",\n"
			    "  \"most\": 18446744073709551615,\n"
			    "  \"yes\": true,\n"
			    "  \"no\": false,\n"
			    "  \"text\": \"a b\"\n"
			    "}\n");
}

static void nested(struct gp_emit *e)
{
	gp_emit_object(e, NULL);
	gp_emit_list(e, "empty");
	gp_emit_close(e);
	gp_emit_list(e, "list");
	gp_emit_object(e, NULL);
	gp_emit_bool(e, "a", true);
	gp_emit_close(e);
	gp_emit_object(e, NULL);
	gp_emit_close(e);
	gp_emit_string(e, NULL, "");
	gp_emit_close(e);
	gp_emit_bool(e, "\"key\"", true);
	gp_emit_close(e);
}

static void test_nesting(void **state)
{
	(void)state;
	assert_string_equal(emit(nested, true), "{\n"
						"  \"empty\": [],\n"
						"  \"list\": [\n"
						"    {\n"
						"      \"a\": true\n"
						"    },\n"
						"    {},\n"
						"    \"\"\n"
						"  ],\n"
						"  \"\\\"key\\\"\": true\n"
						"}\n");
}

static void words(struct gp_emit *e)
{
	for (int i = 0; i < 20; i++)
		gp_emit_words(e, "words  in a row");
	gp_emit_words(e, ", then (");
	gp_emit_number(e, "n", GP_UNIT_COUNT, 1);
	gp_emit_words(e, ").");
	gp_emit_gap(e);
	gp_emit_item(e, "*");
	for (int i = 0; i < 30; i++)
		gp_emit_words(e, "item");
	gp_emit_line(e);
	gp_emit_item(e, "-");
	gp_emit_string(e, "s", ".hidden");
	gp_emit_string(e, "s", ".too");
	gp_emit_tab(e, 32);
	gp_emit_words(e, "at 32");
	gp_emit_tab(e, 10);
	gp_emit_words(e, "one on");
	gp_emit_line(e);
	gp_emit_line(e);
	gp_emit_heading(e, "Caf\xc3\xa9");
}

#define FIVE                                                           \
	"words in a row words in a row words in a row words in a row " \
	"words in a row"

static void test_words(void **state)
{
	(void)state;
	assert_string_equal(
		emit(words, false), FIVE
		"\n" FIVE "\n" FIVE "\n"
		"words in a row words in a row words in a row words in a "
		"row words in a row,\n"
		"then (1).\n"
		"\n"
		"* item item item item item item item item item item item item "
		"item item item\n"
		"  item item item item item item item item item item item item "
		"item item item\n"
		"- .hidden .too                  at 32 one on\n"
		"\n"
		"Caf\xc3\xa9\n"
		"----\n");
	assert_string_equal(emit(words, true) + strlen(output), "");
}

static void rows(struct gp_emit *e)
{
	gp_emit_row(e, "", 10, 12);
	gp_emit_cell(e, "one");
	gp_emit_cell(e, "two");
	gp_emit_row(e, "label", 10, 12);
	gp_emit_number(e, "a", GP_UNIT_COUNT, 1);
	gp_emit_hide(e, true);
	gp_emit_number(e, "b", GP_UNIT_COUNT, 2);
	gp_emit_row(e, "not shown", 10, 12);
	gp_emit_cell(e, "not shown");
	gp_emit_words(e, "not shown");
	gp_emit_item(e, "!");
	gp_emit_tab(e, 5);
	gp_emit_heading(e, "not shown");
	gp_emit_gap(e);
	gp_emit_line(e);
	gp_emit_hide(e, false);
	gp_emit_number(e, "c", GP_UNIT_COUNT, 3);
	gp_emit_row(e, "a label too long", 10, 12);
	gp_emit_number(e, "d", GP_UNIT_COUNT, 4);
	gp_emit_string(e, "e", "and a cell too wide");
	gp_emit_string(e, "f", "x");
	gp_emit_row(e, "empty", 10, 12);
	gp_emit_line(e);
}

static void test_rows(void **state)
{
	(void)state;
	assert_string_equal(emit(rows, false),
			    "                   one         two\n"
			    "label                1           3\n"
			    "a label too long     4 and a cell too wide   x\n"
			    "empty\n");
}

/* The first error stays, and nothing is written after it. */
static void test_errors(void **state)
{
	struct gp_emit emitter;

	(void)state;
	gp_emit_init(&emitter, -1, false);
	for (int i = 0; i < 2000; i++)
		gp_emit_words(&emitter, "more than the buffer");
	assert_int_equal(gp_emit_finish(&emitter), -EBADF);
	emitter.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	gp_emit_words(&emitter, "x");
	assert_int_equal(gp_emit_finish(&emitter), -EBADF);
	close(emitter.fd);

	/* Calls that do not pair give no report rather than a broken one. */
	gp_emit_init(&emitter, -1, true);
	gp_emit_close(&emitter);
	assert_int_equal(gp_emit_finish(&emitter), -EPROTO);
	gp_emit_init(&emitter, -1, true);
	for (int i = 0; i < GP_EMIT_MAX_DEPTH + 1; i++)
		gp_emit_list(&emitter, NULL);
	assert_int_equal(gp_emit_finish(&emitter), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_parentheses_do_not_part_figures),
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
