/*
 * Where things are in the structures of a Python that is in the process.
 *
 * Python 3.13 and later publish it for profilers at the start of _PyRuntime.
 * For 3.8 to 3.12 it is known here, from their headers: within a minor version
 * these structures do not change. Builds for debugging have other ones; every
 * object that is read is therefore checked for its type first, so that they
 * give no frames, and no wrong ones.
 */
#ifndef GP_SHIM_PYTHON_LAYOUT_H
#define GP_SHIM_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* How lines follow from a place in the byte code. */
enum gp_python_lines {
	GP_LINES_LNOTAB,    /* to 3.9 */
	GP_LINES_LINETABLE, /* 3.10 */
	GP_LINES_LOCATIONS, /* from 3.11 on */
};

/* The most of a frame and of a code object that is ever read. */
#define GP_PYTHON_FRAME_BYTES 128u
#define GP_PYTHON_CODE_BYTES  256u

/* Offsets in bytes. */
struct gp_python_layout {
	uint16_t frame_bytes,
		code_bytes; /* of each, to the last that is used */

	enum gp_python_lines lines;

	/* Thread state: the frame, or (cframe) what holds it. */
	uint16_t frame;
	bool cframe;
	uint16_t cframe_frame;

	/* A frame. */
	uint16_t previous, code;
	uint16_t instruction; /* a pointer, or to 3.10 a number */
	uint16_t line;        /* to 3.10: what the debugger goes by */
	uint16_t tracing;     /* to 3.9: the line counts if this is not 0 */
	uint16_t owner;    /* from 3.12 on: 3 and more is no code's; else 0 */
	uint16_t bytecode; /* index of the thread's own byte code, else 0 */

	/* A code object. */
	uint16_t file, name, first_line, table;
	uint16_t instructions; /* where pointers into it start; 0: numbers */
	uint16_t bytecodes;    /* the threads' own byte codes, else 0 */

	/* Objects. */
	uint16_t type, bytes_size, bytes_data;
	uint16_t text_length, text_state, text_size; /* of an ASCII string */
	uint8_t text_shift;                          /* bits before the kind */
	uint8_t text_more; /* what others than ASCII strings are larger by */
};

/* For this version (as 0x030c), `runtime` at _PyRuntime. False: not known. */
bool gp_python_layout_find(unsigned version, uintptr_t runtime,
			   struct gp_python_layout *layout);

#endif
