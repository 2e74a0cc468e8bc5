/*
 * The trace parser: what it takes, and that everything else is refused with
 * the number of its line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "pool/replay/idmap.h"
#include "pool/replay/trace.h"

static void takes(const char *text, struct gp_trace *trace)
{
	char why[128];

	if (gp_trace_parse(text, strlen(text), trace, why, sizeof(why)))
		fail_msg("refused: %s", why);
}

static void refuses(const char *text, const char *sentence)
{
	struct gp_trace trace;
	char why[128];

	assert_int_not_equal(
		gp_trace_parse(text, strlen(text), &trace, why, sizeof(why)),
		0);
	assert_string_equal(why, sentence);
	assert_null(trace.ops);
}

static void test_reads_every_operation(void **state)
{
	struct gp_trace t;

	(void)state;
	takes("# op,id,size,stream,t_us\n"
	      "p,7,100,,0\n"
	      "a,8,200,3,1000\n"
	      "l,,,3,1001\n"
	      "m,,2097152,3,1001\n"
	      "u,,2097152,3,1001\n"
	      "s,,,3,1002\n"
	      "S,,,,1003\n"
	      "o,9,5000,,1004\n"
	      "f,8,,,\n"
	      "f,7,,,1500\n",
	      &t);
	assert_int_equal(t.num_ops, 8);
	assert_int_equal(t.num_blocks, 2);
	assert_int_equal(t.num_streams, 2);
	assert_int_equal(t.duration_us, 500);

	assert_int_equal(t.ops[0].kind, GP_TRACE_ALLOC);
	assert_int_equal(t.ops[0].bytes, 100);
	assert_int_equal(t.ops[0].stream, 0);
	assert_int_equal(t.ops[1].kind, GP_TRACE_ALLOC);
	assert_int_equal(t.ops[1].stream, 1);
	assert_int_equal(t.ops[1].t_us, 1000);
	assert_int_equal(t.ops[2].kind, GP_TRACE_LAUNCH);
	assert_int_equal(t.ops[2].stream, 1);
	assert_int_equal(t.ops[3].kind, GP_TRACE_STREAM_SYNC);
	assert_int_equal(t.ops[3].line, 7);
	assert_int_equal(t.ops[4].kind, GP_TRACE_CONTEXT_SYNC);
	assert_int_equal(t.ops[5].kind, GP_TRACE_OOM);
	assert_int_equal(t.ops[5].bytes, 5000);
	assert_int_equal(t.ops[6].kind, GP_TRACE_FREE);
	assert_int_equal(t.ops[6].block, t.ops[1].block);
	assert_int_equal(t.ops[7].block, t.ops[0].block);
	gp_trace_free(&t);
}

static void test_an_id_may_come_back(void **state)
{
	struct gp_trace t;

	(void)state;
	takes("op,id,size,stream,t_us\r\n"
	      "a,1,10,0,-1\r\nf,1,,0,-1\r\na,1,20,0,-1\r\nf,1,,0,-1",
	      &t);
	assert_int_equal(t.num_ops, 4);
	assert_int_equal(t.num_blocks, 2);
	assert_int_equal(t.ops[1].block, 0);
	assert_int_equal(t.ops[3].block, 1);
	assert_int_equal(t.duration_us, 0);
	gp_trace_free(&t);
}

static void test_refuses_with_the_line(void **state)
{
	(void)state;
	refuses("", "line 1: the trace has no operations");
	refuses("op,id,size,stream,t_us\n",
		"line 1: the trace has no operations");
	refuses("a,1,10,0,0\na,2,10", "line 2: 3 fields, expected 5: "
				      "op,id,size,stream,t_us");
	refuses("a,1,10,0,0\n\nf,1,,0,0\n",
		"line 2: 1 field, expected 5: op,id,size,stream,t_us");
	refuses("a,1,10,0,0,9\n",
		"line 1: 6 fields, expected 5: op,id,size,stream,t_us");
	refuses("a,1,10,0,0\nf,2,,0,0\n", "line 2: block 2 is not allocated");
	refuses("a,1,10,0,0\nf,1,,0,0\nf,1,,0,0\n",
		"line 3: block 1 is not allocated");
	refuses("#\na,1,10,0,0\na,1,20,0,0\n",
		"line 3: block 1 is allocated already");
	refuses("p,1,10,0,0\na,1,20,0,0\n",
		"line 2: block 1 is allocated already");
	refuses("a,1,-10,0,0\n", "line 1: the size -10 is not positive");
	refuses("a,1,0,0,0\n", "line 1: the size 0 is not positive");
	refuses("a,1,,0,0\n", "line 1: the size is missing");
	refuses("o,1,,0,0\n", "line 1: the size is missing");
	refuses("a,,10,0,0\n", "line 1: the id is missing");
	refuses("f,,,0,0\n", "line 1: the id is missing");
	refuses("a,x,10,0,0\n", "line 1: the id \"x\" is not a number");
	refuses("a,1,1e6,0,0\n", "line 1: the size \"1e6\" is not a number");
	refuses("a,1,10 ,0,0\n", "line 1: the size \"10 \" is not a number");
	refuses("a,1,10,blue,0\n",
		"line 1: the stream \"blue\" is not a number");
	refuses("a,1,10,0,now\n", "line 1: the time \"now\" is not a number");
	refuses("a,1,99999999999999999999,0,0\n",
		"line 1: the size is out of range");
	refuses("a,1,281474976710657,0,0\n",
		"line 1: the size 281474976710657 is out of range");
	refuses("a,1,10,0,0\nx,1,,0,0\n", "line 2: unknown operation \"x\"");
	refuses("alloc,1,10,0,0\n", "line 1: unknown operation \"alloc\"");
	/* Only the first line can be a header. */
	refuses("a,1,10,0,0\n# a,2,10,0,0\n",
		"line 2: unknown operation \"# a\"");
}

static void test_a_cut_at_any_byte_is_no_crash(void **state)
{
	static const char text[] = "#h\np,1,10,,0\na,2,20,1,5\nl,,,1,6\n"
				   "f,2,,,7\no,,99,,8\nf,1,,,9\n";
	struct gp_trace t;
	char why[128];
	size_t n;

	(void)state;
	for (n = 0; n < sizeof(text) - 1; n++) {
		int err = gp_trace_parse(text, n, &t, why, sizeof(why));

		if (err)
			assert_memory_equal(why, "line ", 5);
		else
			assert_true(t.num_ops > 0);
		gp_trace_free(&t);
	}
}

static void test_leaves_out_one_size(void **state)
{
	struct gp_trace t;

	(void)state;
	takes("a,1,10,0,0\na,2,64,0,0\na,3,20,0,0\nf,2,,0,0\nf,1,,0,0\n"
	      "a,4,64,0,0\no,,64,0,0\n",
	      &t);
	assert_int_equal(gp_trace_leave_out(&t, 64), 2);
	assert_int_equal(t.num_ops, 4);
	assert_int_equal(t.ops[0].bytes, 10);
	assert_int_equal(t.ops[1].bytes, 20);
	assert_int_equal(t.ops[2].kind, GP_TRACE_FREE);
	assert_int_equal(t.ops[2].block, t.ops[0].block);
	assert_int_equal(t.ops[3].kind, GP_TRACE_OOM);
	gp_trace_free(&t);
}

/* Against a plain array: clusters form and are taken apart again. */
static void test_idmap_follows_an_array(void **state)
{
	enum { IDS = 700 };
	uint32_t index[IDS] = {0}, found;
	struct gp_idmap map = {0};
	uint64_t rng = 88172645463325252ull;
	size_t count = 0;
	int step, i;

	(void)state;
	for (step = 1; step < 100000; step++) {
		rng ^= rng << 13;
		rng ^= rng >> 7;
		rng ^= rng << 17;
		i = (int)(rng % IDS);
		if (index[i]) {
			assert_true(gp_idmap_take(&map, (uint64_t)i, &found));
			assert_int_equal(found, index[i]);
			index[i] = 0;
			count--;
		} else {
			assert_false(gp_idmap_take(&map, (uint64_t)i, &found));
			index[i] = (uint32_t)step;
			assert_int_equal(
				gp_idmap_put(&map, (uint64_t)i, (uint32_t)step),
				0);
			count++;
		}
		assert_int_equal(map.count, count);
	}
	for (i = 0; i < IDS; i++) {
		assert_int_equal(gp_idmap_get(&map, (uint64_t)i, &found),
				 index[i] != 0);
		if (index[i])
			assert_int_equal(found, index[i]);
	}
	gp_idmap_clear(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_every_operation),
		cmocka_unit_test(test_an_id_may_come_back),
		cmocka_unit_test(test_refuses_with_the_line),
		cmocka_unit_test(test_a_cut_at_any_byte_is_no_crash),
		cmocka_unit_test(test_leaves_out_one_size),
		cmocka_unit_test(test_idmap_follows_an_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
