/* Python's structures; see python_layout.h. */
#include "shim/python_layout.h"

#include <string.h>

#include "shim/peek.h"

/* From the headers of each version; offsetof() on x86-64 and aarch64. */
static const struct gp_python_layout python38 = {
	.lines = GP_LINES_LNOTAB,
	.frame = 24,
	.previous = 24,
	.code = 32,
	.instruction = 104,
	.line = 108,
	.tracing = 80,
	.file = 104,
	.name = 112,
	.first_line = 40,
	.table = 120,
	.type = 8,
	.bytes_size = 16,
	.bytes_data = 32,
	.text_length = 16,
	.text_state = 32,
	.text_size = 48,
	.text_shift = 2,
	.text_more = 24,
};

/* The difference of 3.10: another table, and frames without f_trace_lines. */
static const struct gp_python_layout python310 = {
	.lines = GP_LINES_LINETABLE,
	.frame = 24,
	.previous = 24,
	.code = 32,
	.instruction = 96,
	.line = 100,
	.file = 104,
	.name = 112,
	.first_line = 40,
	.table = 120,
	.type = 8,
	.bytes_size = 16,
	.bytes_data = 32,
	.text_length = 16,
	.text_state = 32,
	.text_size = 48,
	.text_shift = 2,
	.text_more = 24,
};

static const struct gp_python_layout python311 = {
	.lines = GP_LINES_LOCATIONS,
	.frame = 56,
	.cframe = true,
	.cframe_frame = 8,
	.previous = 48,
	.code = 32,
	.instruction = 56,
	.file = 112,
	.name = 128,
	.first_line = 72,
	.table = 136,
	.instructions = 184,
	.type = 8,
	.bytes_size = 16,
	.bytes_data = 32,
	.text_length = 16,
	.text_state = 32,
	.text_size = 48,
	.text_shift = 2,
	.text_more = 24,
};

static const struct gp_python_layout python312 = {
	.lines = GP_LINES_LOCATIONS,
	.frame = 56,
	.cframe = true,
	.cframe_frame = 0,
	.previous = 8,
	.code = 0,
	.instruction = 56,
	.owner = 70,
	.file = 112,
	.name = 128,
	.first_line = 68,
	.table = 136,
	.instructions = 192,
	.type = 8,
	.bytes_size = 16,
	.bytes_data = 32,
	.text_length = 16,
	.text_state = 32,
	.text_size = 40,
	.text_shift = 2,
	.text_more = 16,
};

/* ---- what Python publishes ------------------------------------------------------ */

/* Places of the numbers of _Py_DebugOffsets that are used, counted from its
 * start in units of eight bytes. */
struct published {
	uint8_t current_frame;
	uint8_t previous, executable, instr_ptr, owner, tlbc_index;
	uint8_t code_filename, code_qualname, code_linetable, code_firstlineno,
		code_adaptive, code_tlbc;
	uint8_t ob_type;
	uint8_t bytes_size, bytes_sval;
	uint8_t unicode_state, unicode_length, unicode_size;
	uint8_t count; /* of all, to the last one used */
};

static const struct published published313 = {
	.current_frame = 23,
	.previous = 29,
	.executable = 30,
	.instr_ptr = 31,
	.owner = 33,
	.code_filename = 35,
	.code_qualname = 37,
	.code_linetable = 38,
	.code_firstlineno = 39,
	.code_adaptive = 43,
	.ob_type = 45,
	.bytes_size = 65,
	.bytes_sval = 66,
	.unicode_state = 68,
	.unicode_length = 69,
	.unicode_size = 70,
	.count = 71,
};

/* Two more of the interpreter and one of the frame and the code each, and
 * sets. */
static const struct published published314 = {
	.current_frame = 26,
	.previous = 32,
	.executable = 33,
	.instr_ptr = 34,
	.owner = 36,
	.tlbc_index = 38,
	.code_filename = 40,
	.code_qualname = 42,
	.code_linetable = 43,
	.code_firstlineno = 44,
	.code_adaptive = 48,
	.code_tlbc = 49,
	.ob_type = 51,
	.bytes_size = 75,
	.bytes_sval = 76,
	.unicode_state = 78,
	.unicode_length = 79,
	.unicode_size = 80,
	.count = 81,
};

#define MOST 96u

/* Numbers that make no sense give offsets that do not fit. */
static bool fits(uint64_t offset, uint64_t size, uint64_t whole)
{
	return offset <= whole && size <= whole - offset;
}

static bool is_sane(const struct gp_python_layout *l)
{
	return fits(l->previous, 8, GP_PYTHON_FRAME_BYTES) &&
	       fits(l->code, 8, GP_PYTHON_FRAME_BYTES) &&
	       fits(l->instruction, 8, GP_PYTHON_FRAME_BYTES) &&
	       fits(l->owner, 1, GP_PYTHON_FRAME_BYTES) &&
	       fits(l->bytecode, 4, GP_PYTHON_FRAME_BYTES) &&
	       fits(l->file, 8, GP_PYTHON_CODE_BYTES) &&
	       fits(l->name, 8, GP_PYTHON_CODE_BYTES) &&
	       fits(l->table, 8, GP_PYTHON_CODE_BYTES) &&
	       fits(l->first_line, 4, GP_PYTHON_CODE_BYTES) &&
	       fits(l->bytecodes, 8, GP_PYTHON_CODE_BYTES) &&
	       fits(l->type, 8, GP_PYTHON_CODE_BYTES) && l->instructions &&
	       l->instructions < 1024 && l->frame < 4096 &&
	       l->bytes_size < 64 && l->bytes_data < 128 &&
	       l->text_state < 128 && l->text_length < 128 &&
	       l->text_size < 128;
}

static bool read_published(const struct published *p, unsigned version,
			   uintptr_t runtime, struct gp_python_layout *l)
{
	uint64_t w[MOST];

	if (!runtime || !gp_peek(runtime, w, p->count * sizeof(w[0])) ||
	    memcmp(w, "xdebugpy", 8) != 0 || w[1] >> 16 != version)
		return false;
	for (unsigned i = 3; i < p->count; i++)
		if (w[i] > UINT16_MAX)
			w[i] = UINT16_MAX; /* sizes; as an offset refused */
#define AT(name) ((uint16_t)w[p->name])
	*l = (struct gp_python_layout){
		.lines = GP_LINES_LOCATIONS,
		.frame = AT(current_frame),
		.previous = AT(previous),
		.code = AT(executable),
		.instruction = AT(instr_ptr),
		.owner = AT(owner),
		.file = AT(code_filename),
		.name = AT(code_qualname),
		.first_line = AT(code_firstlineno),
		.table = AT(code_linetable),
		.instructions = AT(code_adaptive),
		.type = AT(ob_type),
		.bytes_size = AT(bytes_size),
		.bytes_data = AT(bytes_sval),
		.text_length = AT(unicode_length),
		.text_state = AT(unicode_state),
		.text_size = AT(unicode_size),
		.text_shift = 2,
		.text_more = 16,
	};
	if (w[2] && p->tlbc_index) { /* free-threaded */
		l->bytecode = AT(tlbc_index);
		l->bytecodes = AT(code_tlbc);
		l->text_shift = 8;
	}
#undef AT
	return is_sane(l);
}

static void stretch(uint16_t *bytes, unsigned offset, unsigned size)
{
	if (*bytes < offset + size)
		*bytes = (uint16_t)(offset + size);
}

/* No more is read than what is used: what follows may not be there. */
static void measure(struct gp_python_layout *l)
{
	stretch(&l->frame_bytes, l->previous, 8);
	stretch(&l->frame_bytes, l->code, 8);
	stretch(&l->frame_bytes, l->instruction, 8);
	stretch(&l->frame_bytes, l->line, 4);
	stretch(&l->frame_bytes, l->tracing, 8);
	stretch(&l->frame_bytes, l->owner, 1);
	stretch(&l->frame_bytes, l->bytecode, 4);
	stretch(&l->code_bytes, l->type, 8);
	stretch(&l->code_bytes, l->file, 8);
	stretch(&l->code_bytes, l->name, 8);
	stretch(&l->code_bytes, l->first_line, 4);
	stretch(&l->code_bytes, l->table, 8);
	stretch(&l->code_bytes, l->bytecodes, 8);
}

static bool find(unsigned version, uintptr_t runtime,
		 struct gp_python_layout *layout)
{
	switch (version) {
	case 0x0308:
	case 0x0309:
		*layout = python38;
		return true;
	case 0x030a:
		*layout = python310;
		return true;
	case 0x030b:
		*layout = python311;
		return true;
	case 0x030c:
		*layout = python312;
		return true;
	case 0x030d:
		return read_published(&published313, version, runtime, layout);
	case 0x030e:
		return read_published(&published314, version, runtime, layout);
	default:
		return false;
	}
}

bool gp_python_layout_find(unsigned version, uintptr_t runtime,
			   struct gp_python_layout *layout)
{
	if (!find(version, runtime, layout))
		return false;
	measure(layout);
	return true;
}
