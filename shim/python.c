/* Python frames; see python.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "shim/python.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "shim/hooks.h"
#include "shim/peek.h"
#include "shim/python_api.h"
#include "shim/python_text.h"

/* Frames that are looked at: more than are kept, since some are no code's. */
#define MAX_WALK (2 * GP_STACK_PYTHON)

/* Pointers into Python 3.14's stacks carry marks in their lowest bits. */
#define MARKS    7u

/* Found once, then constant. One caller at a time. */
static struct {
	bool there, known;
	bool ask; /* where it is not known */
	void *(*thread_state)(void);
	uintptr_t code_type, text_type, bytes_type;
	uintptr_t first, end; /* its code */
	struct gp_python_layout layout;
} python;

/* ---- finding it -------------------------------------------------------------------- */

static void *symbol(const char *name)
{
	return gp_dlsym(RTLD_DEFAULT, name);
}

/* 0x030c for 3.12, 0 if it cannot be told. */
static unsigned version_of(void)
{
	const unsigned long *number = symbol("Py_Version"); /* from 3.11 on */
	const char *(*tell)(void) =
		(const char *(*)(void))symbol("Py_GetVersion");
	unsigned minor = 0;
	const char *text;

	if (number)
		return (unsigned)(*number >> 16);
	text = tell ? tell() : NULL;
	if (!text || text[0] != '3' || text[1] != '.')
		return 0;
	for (text += 2; *text >= '0' && *text <= '9' && minor < 100; text++)
		minor = minor * 10 + (unsigned)(*text - '0');
	return 0x0300 + minor;
}

/* The object around python.thread_state. */
static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t inside = (uintptr_t)python.thread_state;

	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t first = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD || inside < first ||
		    inside - first >= p->p_memsz)
			continue;
		python.first = first;
		python.end = first + p->p_memsz;
		return 1;
	}
	return 0;
}

bool gp_python_has(uintptr_t code)
{
	return code >= python.first && code < python.end;
}

void gp_python_find(void)
{
	/* Asked again and again would cost each sample a look through all
	 * libraries: ever less often. */
	static unsigned asked;
	unsigned n = asked++;

	if (python.there || (n & (n - 1)))
		return;
	python.thread_state =
		(void *(*)(void))symbol("PyGILState_GetThisThreadState");
	if (!python.thread_state)
		return;
	python.there = true;
	dl_iterate_phdr(look_at, NULL);
	python.code_type = (uintptr_t)symbol("PyCode_Type");
	python.text_type = (uintptr_t)symbol("PyUnicode_Type");
	python.bytes_type = (uintptr_t)symbol("PyBytes_Type");
	gp_peek_forget();
	python.known = python.code_type && python.text_type &&
		       python.bytes_type &&
		       gp_python_layout_find(version_of(),
					     (uintptr_t)symbol("_PyRuntime"),
					     &python.layout);
	python.ask = !python.known && gp_python_api_find();
}

/* ---- frames --------------------------------------------------------------------------- */

struct walked {
	unsigned n;
	bool cut, failed;
	uintptr_t code[GP_STACK_PYTHON];
	uint64_t place[GP_STACK_PYTHON]; /* of the instruction */
	uint32_t line[GP_STACK_PYTHON];  /* 0: to be found */
	uint32_t bytecode[GP_STACK_PYTHON];
};

static uintptr_t pointer_at(const char *from, unsigned offset)
{
	uintptr_t pointer;

	memcpy(&pointer, from + offset, sizeof(pointer));
	return pointer;
}

static uint32_t number_at(const char *from, unsigned offset)
{
	uint32_t number;

	memcpy(&number, from + offset, sizeof(number));
	return number;
}

/* To 3.10 frames are objects, and hold a number. */
static void take_old(struct walked *w, const char *frame)
{
	const struct gp_python_layout *l = &python.layout;
	int32_t last = (int32_t)number_at(frame, l->instruction);
	uint32_t line = number_at(frame, l->line);

	if (l->tracing && !pointer_at(frame, l->tracing))
		line = 0; /* not kept up to date */
	w->place[w->n] = last < 0 ? 0 : (uint64_t)last;
	if (l->lines == GP_LINES_LINETABLE)
		w->place[w->n] *= 2; /* counts instructions */
	w->line[w->n] = line;
}

static bool take(struct walked *w, const char *frame)
{
	const struct gp_python_layout *l = &python.layout;

	if (l->owner && (unsigned char)frame[l->owner] >= 3)
		return true; /* where C code called in */
	if (w->n == GP_STACK_PYTHON) {
		w->cut = true;
		return false;
	}
	w->code[w->n] = pointer_at(frame, l->code) & ~(uintptr_t)MARKS;
	w->line[w->n] = 0;
	w->bytecode[w->n] = l->bytecode ? number_at(frame, l->bytecode) : 0;
	if (l->instructions)
		w->place[w->n] = pointer_at(frame, l->instruction);
	else
		take_old(w, frame);
	w->n++;
	return true;
}

static void walk(struct walked *w, uintptr_t state)
{
	const struct gp_python_layout *l = &python.layout;
	char frame[GP_PYTHON_FRAME_BYTES] = {0};
	uintptr_t at = 0;

	w->n = 0;
	w->cut = false;
	w->failed = !gp_peek_pointer(state + l->frame, &at) ||
		    (l->cframe && !gp_peek_pointer(at + l->cframe_frame, &at));
	if (w->failed)
		return;
	for (unsigned i = 0; at && i < MAX_WALK; i++) {
		if (!gp_peek(at, frame, l->frame_bytes)) {
			w->failed = true;
			return;
		}
		if (!take(w, frame))
			return;
		at = pointer_at(frame, l->previous);
	}
}

/* ---- code ------------------------------------------------------------------------------ */

/* Frames that were looked up before. A code object may go and another one come
 * at its address: what it points to is compared, too. Guarded by the lock of
 * stacks.c. */
struct known {
	uintptr_t code, file, name, table;
	uint64_t place, first_line;
	uint64_t frame;
};

#define KNOWN 4096u

static struct known known[KNOWN];

static bool is_type(uintptr_t object, uintptr_t type)
{
	uintptr_t found;

	return gp_peek_pointer(object + python.layout.type, &found) &&
	       found == type;
}

/* A frame as a word; false if it is not what it should be. */
static bool look_up(const struct known *key, uint32_t line, uint64_t *frame)
{
	const struct gp_python_layout *l = &python.layout;
	char file[512], name[256];

	if (!is_type(key->file, python.text_type) ||
	    !is_type(key->name, python.text_type) ||
	    !is_type(key->table, python.bytes_type) ||
	    !gp_python_string(l, key->file, file, sizeof(file)) ||
	    !gp_python_string(l, key->name, name, sizeof(name)))
		return false;
	if (!line)
		line = gp_python_line(l, key->table, (uint32_t)key->first_line,
				      key->place);
	*frame = gp_frame_at(gp_place(file, name), line);
	return true;
}

/* Where the thread's own byte code starts, in builds without a GIL. */
static uintptr_t own_bytecode(uintptr_t array, uint32_t index)
{
	uintptr_t start = 0;
	uint64_t size;

	if (!gp_peek(array, &size, sizeof(size)) || index >= size ||
	    !gp_peek_pointer(array + 8 + 8ull * index, &start))
		return 0;
	return start;
}

static bool frame_of(const struct walked *w, unsigned i, const char *code,
		     uint64_t *frame)
{
	const struct gp_python_layout *l = &python.layout;
	struct known key = {
		.code = w->code[i],
		.file = pointer_at(code, l->file),
		.name = pointer_at(code, l->name),
		.table = pointer_at(code, l->table),
		.place = w->place[i],
		.first_line = number_at(code, l->first_line),
	};
	struct known *slot;
	uintptr_t start = w->code[i] + l->instructions;

	if (pointer_at(code, l->type) != python.code_type)
		return false;
	if (l->bytecodes)
		start = own_bytecode(pointer_at(code, l->bytecodes),
				     w->bytecode[i]);
	if (l->instructions)
		key.place = w->place[i] > start ? w->place[i] - start : 0;
	slot = &known[(key.code >> 4 ^ key.place * 0x9e3779b1u) % KNOWN];
	if (!w->line[i] && !memcmp(slot, &key, offsetof(struct known, frame))) {
		*frame = slot->frame;
		return true;
	}
	if (!look_up(&key, w->line[i], frame))
		return false;
	if (!w->line[i]) {
		key.frame = *frame;
		*slot = key;
	}
	return true;
}

void gp_python_walk(struct gp_stack *stack)
{
	static struct walked w; /* one caller at a time */
	static char codes[GP_STACK_PYTHON * GP_PYTHON_CODE_BYTES];
	size_t size = python.layout.code_bytes;
	bool ok[GP_STACK_PYTHON];
	uintptr_t state;
	unsigned n = 0;

	stack->python = 0;
	stack->python_cut = false;
	stack->why = GP_PYTHON_NONE;
	if (!python.there)
		return;
	stack->why = GP_PYTHON_NOT_HERE;
	state = (uintptr_t)python.thread_state();
	if (!state)
		return;
	if (!python.known) {
		stack->why = GP_PYTHON_UNKNOWN;
		if (python.ask &&
		    gp_python_api_walk((const void *)state, stack))
			stack->why = stack->python ? GP_PYTHON_FRAMES
						   : GP_PYTHON_NOT_HERE;
		return;
	}
	gp_peek_forget();
	walk(&w, state);
	gp_peek_many(w.code, w.n, codes, size, ok);
	for (unsigned i = 0; i < w.n; i++)
		if (ok[i] &&
		    frame_of(&w, i, codes + i * size, &stack->frames[n]))
			n++;
	stack->python = (uint16_t)n;
	stack->python_cut = w.cut;
	if (n)
		stack->why = GP_PYTHON_FRAMES;
	else if (w.n || w.failed)
		stack->why = GP_PYTHON_UNREADABLE;
}
