/* Python's functions for frames; see python_api.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "shim/python_api.h"

#include <dlfcn.h>
#include <stddef.h>

#include "shim/hooks.h"

/* Python's objects, seen from outside. */
typedef struct python_object pyobject;

/* X(field, type of the result, arguments, name in Python) */
#define FUNCTIONS(X)                                                           \
	X(frame, pyobject *, (void), "PyEval_GetFrame")                        \
	X(back, pyobject *, (pyobject *), "PyFrame_GetBack")                   \
	X(code, pyobject *, (pyobject *), "PyFrame_GetCode")                   \
	X(line, int, (pyobject *), "PyFrame_GetLineNumber")                    \
	X(attribute, pyobject *, (pyobject *, const char *),                   \
	  "PyObject_GetAttrString")                                            \
	X(utf8, const char *, (pyobject *), "PyUnicode_AsUTF8")                \
	X(release, void, (pyobject *), "Py_DecRef")                            \
	X(hold, void, (pyobject *), "Py_IncRef")                               \
	X(fetch, void, (pyobject **, pyobject **, pyobject **), "PyErr_Fetch") \
	X(restore, void, (pyobject *, pyobject *, pyobject *),                 \
	  "PyErr_Restore")                                                     \
	X(clear, void, (void), "PyErr_Clear")                                  \
	X(gc_off, int, (void), "PyGC_Disable")                                 \
	X(gc_on, int, (void), "PyGC_Enable")

/* Constant once found. */
static struct {
#define X(field, result, arguments, name) result(*field) arguments;
	FUNCTIONS(X)
#undef X
	const void *(*current)(void);
} api;

bool gp_python_api_find(void)
{
	bool all = true;

#define X(field, result, arguments, name)                              \
	api.field = (result(*) arguments)gp_dlsym(RTLD_DEFAULT, name); \
	all = all && api.field;
	FUNCTIONS(X)
#undef X
	/* Whose state is current: without a look at a thread that has none. */
	api.current = (const void *(*)(void))gp_dlsym(
		RTLD_DEFAULT, "PyThreadState_GetUnchecked");
	if (!api.current)
		api.current = (const void *(*)(void))gp_dlsym(
			RTLD_DEFAULT, "_PyThreadState_UncheckedGet");
	/* Only builds without a GIL have this one. There, a thread that waits
	 * for ours could keep Python from stopping all threads. */
	return all && api.current &&
	       !gp_dlsym(RTLD_DEFAULT, "_Py_MergeZeroLocalRefcount");
}

/* A string that the code object keeps alive. */
static const char *text_of(pyobject *code, const char *name)
{
	pyobject *value = api.attribute(code, name);
	const char *text = value ? api.utf8(value) : NULL;

	if (value)
		api.release(value);
	if (!text)
		api.clear();
	return text ? text : "";
}

static uint64_t ask_frame(pyobject *frame)
{
	pyobject *code = api.code(frame);
	const char *name;
	int line = api.line(frame);
	uint64_t word;

	if (!code)
		return gp_frame_at(0, 0);
	name = text_of(code, "co_qualname"); /* from 3.11 on */
	word = gp_frame_at(gp_place(text_of(code, "co_filename"),
				    *name ? name : text_of(code, "co_name")),
			   line > 0 ? (uint32_t)line : 0);
	api.release(code);
	return word;
}

bool gp_python_api_walk(const void *state, struct gp_stack *stack)
{
	pyobject *type, *value, *trace, *frame;
	unsigned n = 0;
	int collects;

	if (!state || api.current() != state)
		return false;
	collects = api.gc_off();
	api.fetch(&type, &value, &trace);
	frame = api.frame();
	if (frame)
		api.hold(frame);
	while (frame) {
		pyobject *back;

		stack->python_cut = n == GP_STACK_PYTHON;
		if (stack->python_cut) {
			api.release(frame);
			break;
		}
		stack->frames[n++] = ask_frame(frame);
		back = api.back(frame);
		api.release(frame);
		frame = back;
	}
	stack->python = (uint16_t)n;
	api.restore(type, value, trace);
	if (collects)
		api.gc_on();
	return true;
}
