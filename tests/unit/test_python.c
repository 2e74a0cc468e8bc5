/*
 * Python frames from structures made here: what newer Pythons publish, and
 * whatever else may stand in memory.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "shim/peek.c"
#include "shim/python_layout.c"
#include "shim/python_text.c"

static void *thread_state_now;
static const void *runtime_now;
static unsigned long version_now;

/* Types are told apart by their address alone. */
static char code_type[64], text_type[64], bytes_type[64];

static void *state_of_thread(void)
{
	return thread_state_now;
}

/* What the linker would find. */
static void *gp_dlsym(void *handle, const char *name)
{
	(void)handle;
	if (!strcmp(name, "PyGILState_GetThisThreadState"))
		return (void *)state_of_thread;
	if (!strcmp(name, "PyCode_Type"))
		return code_type;
	if (!strcmp(name, "PyUnicode_Type"))
		return text_type;
	if (!strcmp(name, "PyBytes_Type"))
		return bytes_type;
	if (!strcmp(name, "Py_Version"))
		return &version_now;
	if (!strcmp(name, "_PyRuntime"))
		return (void *)runtime_now;
	return NULL;
}

#define GP_SHIM_HOOKS_H /* its gp_dlsym is the one above */
#include "shim/python_api.c"
#include "shim/python.c"

/* ---- a Python 3.14 ------------------------------------------------------------------ */

/* As its header has them, in this order. */
struct debug_offsets {
	char cookie[8];
	uint64_t version, free_threaded;
	struct {
		uint64_t size, finalizing, interpreters_head;
	} runtime_state;
	struct {
		uint64_t size, id, next, threads_head, threads_main, gc,
			imports_modules, sysdict, builtins, ceval_gil,
			gil_runtime_state, gil_runtime_state_enabled,
			gil_runtime_state_locked, gil_runtime_state_holder,
			code_object_generation, tlbc_generation;
	} interpreter_state;
	struct {
		uint64_t size, prev, next, interp, current_frame, thread_id,
			native_thread_id, datastack_chunk, status;
	} thread_state;
	struct {
		uint64_t size, previous, executable, instr_ptr, localsplus,
			owner, stackpointer, tlbc_index;
	} interpreter_frame;
	struct {
		uint64_t size, filename, name, qualname, linetable, firstlineno,
			argcount, localsplusnames, localspluskinds,
			co_code_adaptive, co_tlbc;
	} code_object;
	struct {
		uint64_t size, ob_type;
	} pyobject;
	struct {
		uint64_t size, tp_name, tp_repr, tp_flags;
	} type_object;
	struct {
		uint64_t size, ob_item, ob_size;
	} tuple_object, list_object;
	struct {
		uint64_t size, used, table, mask;
	} set_object;
	struct {
		uint64_t size, ma_keys, ma_values;
	} dict_object;
	struct {
		uint64_t size, ob_fval;
	} float_object;
	struct {
		uint64_t size, lv_tag, ob_digit;
	} long_object;
	struct {
		uint64_t size, ob_size, ob_sval;
	} bytes_object;
	struct {
		uint64_t size, state, length, asciiobject_size;
	} unicode_object;
};

struct object {
	uint64_t count;
	const void *type;
};

struct text {
	struct object head;
	uint64_t length, hash;
	uint32_t state;
	uint32_t unused;
	char data[200];
};

struct bytes {
	struct object head;
	uint64_t size, hash;
	uint8_t data[64];
};

struct bytecodes {
	uint64_t size;
	const void *entries[2];
};

struct code {
	struct object head;
	uint64_t unused;
	int argcount, first_line;
	const void *file, *name, *qualname, *table;
	const struct bytecodes *own;
	uint16_t instructions[64];
};

struct frame {
	uintptr_t executable;
	const struct frame *previous;
	uint64_t unused[5];
	const void *instruction;
	uint64_t stack;
	int32_t own_index;
	uint16_t offset;
	char owner;
	char rest;
};

struct thread {
	uint64_t unused[9];
	const struct frame *frame;
};

static struct debug_offsets published;
static struct thread thread;
static struct text file, name;
static struct bytes table;
static struct code code;
static struct frame frames[200];
static uint16_t own_code[64];
static struct bytecodes own = {2, {NULL, own_code}};

static void publish(bool free_threaded)
{
	memset(&published, 0, sizeof(published));
	memcpy(published.cookie, "xdebugpy", 8);
	published.version = 0x030e00f0;
	published.free_threaded = free_threaded;
	published.thread_state.current_frame = offsetof(struct thread, frame);
	published.interpreter_frame.previous = offsetof(struct frame, previous);
	published.interpreter_frame.executable =
		offsetof(struct frame, executable);
	published.interpreter_frame.instr_ptr =
		offsetof(struct frame, instruction);
	published.interpreter_frame.owner = offsetof(struct frame, owner);
	published.code_object.filename = offsetof(struct code, file);
	published.code_object.name = offsetof(struct code, name);
	published.code_object.qualname = offsetof(struct code, qualname);
	published.code_object.linetable = offsetof(struct code, table);
	published.code_object.firstlineno = offsetof(struct code, first_line);
	published.code_object.co_code_adaptive =
		offsetof(struct code, instructions);
	published.pyobject.ob_type = offsetof(struct object, type);
	published.bytes_object.ob_size = offsetof(struct bytes, size);
	published.bytes_object.ob_sval = offsetof(struct bytes, data);
	published.unicode_object.state = offsetof(struct text, state);
	published.unicode_object.length = offsetof(struct text, length);
	published.unicode_object.asciiobject_size = offsetof(struct text, data);
	if (free_threaded) {
		published.interpreter_frame.tlbc_index =
			offsetof(struct frame, own_index);
		published.code_object.co_tlbc = offsetof(struct code, own);
	}
	runtime_now = &published;
	version_now = 0x030e00f0;
}

static void fill_text(struct text *text, const char *data, unsigned shift)
{
	text->head.type = text_type;
	text->length = strlen(data);
	text->state = (1u | 8u | 16u) << shift;
	strcpy(text->data, data);
}

/* Lines of f(), which starts at 10: two instructions of line 10, three of 12,
 * one of none, and one of line 11. */
static void fill_table(void)
{
	static const uint8_t entries[] = {
		0x80 | 0 << 3 | 1,
		0x00, /* short, same line */
		0x80 | 12 << 3 | 2,
		0x01,
		0x05,               /* two further on */
		0x80 | 15 << 3 | 0, /* none */
		0x80 | 13 << 3 | 0,
		0x03, /* one back */
		0x80 | 14 << 3 | 0,
		0x40,
		0x10,
		0x01, /* 512 further on ... */
		0x05,
		0x06,
	};

	table.head.type = bytes_type;
	table.size = sizeof(entries);
	memcpy(table.data, entries, sizeof(entries));
}

/* As gp_python_find() does, which asks less and less often. */
static void discover(void)
{
	memset(&python, 0, sizeof(python));
	python.thread_state = state_of_thread;
	python.there = true;
	python.code_type = (uintptr_t)code_type;
	python.text_type = (uintptr_t)text_type;
	python.bytes_type = (uintptr_t)bytes_type;
	gp_peek_forget();
	python.known = gp_python_layout_find(0x030e, (uintptr_t)&published,
					     &python.layout);
}

static void fill(bool free_threaded)
{
	unsigned shift = free_threaded ? 8 : 2;

	memset(known, 0, sizeof(known));
	publish(free_threaded);
	fill_text(&file, "/a/f.py", shift);
	fill_text(&name, "C.f", shift);
	fill_table();
	code = (struct code){.head.type = code_type,
			     .first_line = 10,
			     .file = &file,
			     .name = &file,
			     .qualname = &name,
			     .table = &table,
			     .own = &own};
	memset(frames, 0, sizeof(frames));
	thread.frame = &frames[0];
	thread_state_now = &thread;
	discover();
}

/* At this instruction, called from the next frame. */
static void set_frame(unsigned i, unsigned at, bool free_threaded)
{
	frames[i].executable = (uintptr_t)&code | 1; /* marked */
	frames[i].own_index = free_threaded;
	frames[i].instruction =
		free_threaded ? &own_code[at] : &code.instructions[at];
	frames[i].previous = &frames[i + 1];
}

static void expect_line(uint64_t frame, uint64_t line)
{
	struct gp_frame_text text;

	gp_frame_look_up(frame, &text);
	assert_string_equal(text.file, "/a/f.py");
	assert_string_equal(text.function, "C.f");
	assert_int_equal(text.line, line);
}

static void walk_all(bool free_threaded)
{
	struct gp_stack stack;

	fill(free_threaded);
	set_frame(0, 0, free_threaded);
	set_frame(1, 4, free_threaded);
	set_frame(2, 5, free_threaded);
	frames[3].owner = 3; /* where C code called in */
	frames[3].executable = 0x10;
	frames[3].previous = &frames[4];
	set_frame(4, 6, free_threaded);
	set_frame(5, 7, free_threaded);
	frames[5].previous = NULL;
	for (int again = 0; again < 2; again++) { /* then from what is known */
		gp_python_walk(&stack);
		assert_int_equal(stack.why, GP_PYTHON_FRAMES);
		assert_int_equal(stack.python, 5);
		assert_false(stack.python_cut);
		expect_line(stack.frames[0], 10);
		expect_line(stack.frames[1], 12);
		expect_line(stack.frames[2], 0);
		expect_line(stack.frames[3], 11);
		expect_line(stack.frames[4], 11 + 512);
	}
}

static void test_published(void **state)
{
	(void)state;
	walk_all(false);
}

static void test_free_threaded(void **state)
{
	(void)state;
	walk_all(true);
}

/* Another code object at the address of one that was known. */
static void test_code_reused(void **state)
{
	static struct text other;
	struct gp_frame_text text;
	struct gp_stack stack;

	(void)state;
	fill(false);
	set_frame(0, 0, false);
	frames[0].previous = NULL;
	gp_python_walk(&stack);
	expect_line(stack.frames[0], 10);
	fill_text(&other, "g", 2);
	code.qualname = &other;
	code.first_line = 20;
	gp_python_walk(&stack);
	gp_frame_look_up(stack.frames[0], &text);
	assert_string_equal(text.function, "g");
	assert_int_equal(text.line, 20);
}

static void expect_none(enum gp_stack_python why)
{
	struct gp_stack stack;

	gp_python_walk(&stack);
	assert_int_equal(stack.python, 0);
	assert_int_equal(stack.why, why);
}

/* Each structure is another one than it should be. */
static void test_other_types(void **state)
{
	const void **types[] = {&code.head.type, &file.head.type,
				&name.head.type, &table.head.type};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		fill(false);
		set_frame(0, 0, false);
		frames[0].previous = NULL;
		*types[i] = "another type";
		expect_none(GP_PYTHON_UNREADABLE);
	}
}

static void test_found(void **state)
{
	struct gp_stack stack;

	(void)state;
	fill(false);
	set_frame(0, 0, false);
	frames[0].previous = NULL;
	memset(&python, 0, sizeof(python));
	expect_none(GP_PYTHON_NONE);
	gp_python_find();
	gp_python_walk(&stack);
	assert_int_equal(stack.python, 1);
	assert_true(gp_python_has((uintptr_t)state_of_thread));
	assert_false(gp_python_has((uintptr_t)&stack));
}

static void test_unknown(void **state)
{
	(void)state;
	fill(false);
	thread_state_now = NULL;
	expect_none(GP_PYTHON_NOT_HERE);
	fill(false);
	thread.frame = NULL;
	expect_none(GP_PYTHON_NOT_HERE);
}

/* What is published is not what it says: not used. */
static void test_bad_offsets(void **state)
{
	struct gp_python_layout l;

	(void)state;
	publish(false);
	gp_peek_forget();
	assert_true(gp_python_layout_find(0x030e, (uintptr_t)&published, &l));
	assert_false(gp_python_layout_find(0x030d, (uintptr_t)&published, &l));
	assert_false(gp_python_layout_find(0x030f, (uintptr_t)&published, &l));
	assert_false(gp_python_layout_find(0x0307, 0, &l));
	assert_false(gp_python_layout_find(0x030e, 0, &l));
	assert_false(gp_python_layout_find(0x030e, 0x1000, &l));
	published.cookie[0] = 'y';
	gp_peek_forget();
	assert_false(gp_python_layout_find(0x030e, (uintptr_t)&published, &l));
	for (unsigned i = 3; i < sizeof(published) / 8; i++) {
		publish(false);
		gp_peek_forget();
		((uint64_t *)&published)[i] = 1ull << (i % 60 + 4);
		if (gp_python_layout_find(0x030e, (uintptr_t)&published, &l))
			assert_in_range(l.frame_bytes, 1,
					GP_PYTHON_FRAME_BYTES);
	}
}

/* Rings, and more frames than are kept. */
static void test_deep(void **state)
{
	struct gp_stack stack;

	(void)state;
	fill(false);
	for (unsigned i = 0; i < 199; i++)
		set_frame(i, 0, false);
	gp_python_walk(&stack);
	assert_int_equal(stack.python, GP_STACK_PYTHON);
	assert_true(stack.python_cut);
	frames[0].previous = &frames[0];
	gp_python_walk(&stack);
	assert_int_equal(stack.python, GP_STACK_PYTHON);
	/* Nothing but frames that are no code's. */
	frames[0].owner = 3;
	expect_none(GP_PYTHON_NOT_HERE);
}

static void test_text(void **state)
{
	static const struct {
		unsigned kind;
		uint32_t c;
		const char *utf8;
	} rows[] = {
		{1, 0xe9, "\xc3\xa9"},
		{2, 0x6a21, "\xe6\xa8\xa1"},
		{4, 0x1f40d, "\xf0\x9f\x90\x8d"},
		{2, 0xd800, "?"},
		{1, '\n', "?"},
		{4, 0x7fffffff, "?"},
	};
	char text[32];

	(void)state;
	fill(false);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		name.length = 1;
		name.state = (rows[i].kind | 8) << 2;
		memcpy(name.data + 16, &rows[i].c, 4);
		gp_peek_forget();
		assert_true(gp_python_string(&python.layout, (uintptr_t)&name,
					     text, sizeof(text)));
		assert_string_equal(text, rows[i].utf8);
	}
	/* Longer than there is room for, and longer than memory. */
	name.length = UINT64_MAX;
	name.state = (4 | 8) << 2;
	gp_peek_forget();
	assert_true(
		gp_python_string(&python.layout, (uintptr_t)&name, text, 8));
	name.state = 0;
	gp_peek_forget();
	assert_false(
		gp_python_string(&python.layout, (uintptr_t)&name, text, 8));
}

/* The end of what is mapped. */
static void test_edges(void **state)
{
	long page = sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t word;
	uintptr_t many[3];
	uint64_t to[3];
	bool ok[3];

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(mprotect(at + page, (size_t)page, PROT_NONE), 0);
	gp_peek_forget();
	at[page - 8] = 7;
	assert_true(gp_peek((uintptr_t)at + (size_t)page - 8, &word, 8));
	assert_int_equal(word, 7);
	assert_false(gp_peek((uintptr_t)at + (size_t)page - 7, &word, 8));
	assert_false(gp_peek(0, &word, 8));
	assert_false(gp_peek(8, &word, 8));
	assert_false(gp_peek(UINTPTR_MAX - 3, &word, 8));
	assert_false(gp_peek(1ull << 63, &word, 8));
	many[0] = (uintptr_t)at;
	many[1] = (uintptr_t)at + (size_t)page;
	many[2] = (uintptr_t)at + (size_t)page - 8;
	gp_peek_many(many, 3, to, 8, ok);
	assert_true(ok[0] && !ok[1] && ok[2]);
	assert_int_equal(to[2], 7);
	munmap(at, (size_t)page * 2);
}

/* Words anywhere are overwritten with anything: frames or none, no crash, and
 * always an end. */
static void test_garbage(void **state)
{
	void *parts[] = {&thread, &file,  &name, &table,
			 &code,   frames, &own,  &published};
	size_t sizes[] = {sizeof(thread), sizeof(file),
			  sizeof(name),   sizeof(table),
			  sizeof(code),   5 * sizeof(frames[0]),
			  sizeof(own),    sizeof(published)};
	struct gp_stack stack;

	(void)state;
	srand(1);
	for (int i = 0; i < 20000; i++) {
		bool free_threaded = rand() % 2;

		fill(free_threaded);
		for (unsigned k = 0; k < 4; k++)
			set_frame(k, k, free_threaded);
		frames[4].previous = NULL;
		for (int k = rand() % 4; k >= 0; k--) {
			unsigned part = (unsigned)rand() % 8;
			char *at = (char *)parts[part] +
				   (unsigned)rand() % (sizes[part] / 8) * 8;
			uint64_t word = (uint64_t)rand() << 32 ^
					(uint64_t)rand() << 8 ^
					(uint64_t)rand();
			uint64_t values[] = {
				word,
				word >> 40,
				word >> 56,
				(uintptr_t)parts[word % 8],
				UINT64_MAX,
				(uintptr_t)parts[word % 8] + word % 64};

			memcpy(at, &values[rand() % 6], 8);
		}
		discover();
		gp_python_walk(&stack);
		assert_in_range(stack.python, 0, GP_STACK_PYTHON);
	}
}

/* The tables of 3.8 and 3.10, which no Python of these tests may have. */
static void test_older_lines(void **state)
{
	static const uint8_t lnotab[] = {0, 1, 6, 2, 255, 0, 45, 127, 2, 0xfe};
	static const uint8_t linetable[] = {6, 1, 4, 0x80, 4, 3, 8, 0xfe};
	static const struct {
		unsigned version, offset, line;
	} rows[] = {
		{0x0308, 0, 11},    {0x0308, 5, 11},    {0x0308, 6, 13},
		{0x0308, 305, 13},  {0x0308, 306, 140}, {0x0308, 308, 138},
		{0x0308, 999, 138}, {0x030a, 0, 11},    {0x030a, 5, 11},
		{0x030a, 6, 0},     {0x030a, 9, 0},     {0x030a, 10, 14},
		{0x030a, 13, 14},   {0x030a, 14, 12},   {0x030a, 22, 0},
	};
	struct gp_python_layout l;

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool old = rows[i].version == 0x0308;

		assert_true(gp_python_layout_find(rows[i].version, 0, &l));
		table.size = old ? sizeof(lnotab) : sizeof(linetable);
		memcpy(table.data, old ? lnotab : linetable, table.size);
		gp_peek_forget();
		assert_int_equal(gp_python_line(&l, (uintptr_t)&table, 10,
						rows[i].offset),
				 rows[i].line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published),
		cmocka_unit_test(test_free_threaded),
		cmocka_unit_test(test_code_reused),
		cmocka_unit_test(test_other_types),
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_bad_offsets),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_older_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
