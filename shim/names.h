/*
 * The names that cuda.h gave its entry points when work.def was made, those of
 * them that gpupool stands in for, and those that a newer driver added.
 */
#ifndef GP_SHIM_NAMES_H
#define GP_SHIM_NAMES_H

#include <stdbool.h>
#include <stddef.h>

enum gp_name {
	GP_NAME_OTHER,  /* no entry point, or one that gpupool is too old for */
	GP_NAME_KNOWN,  /* of the driver, forwarded unseen */
	GP_NAME_HOOKED, /* of the driver, with a body of ours */
	GP_NAME_NVML,   /* of NVML, with a body of ours */
	GP_NAME_RUNTIME, /* of the runtime, with a body of ours */
};

/* What `name` is, as exported (with _v2, _ptsz). Thread-safe, takes no lock and
 * no memory, and may be called before any constructor. */
enum gp_name gp_name_find(const char *name);

/* True for an entry point that the headers had. Thread-safe. */
bool gp_work_is_known(const char *name);

/* The program got the driver's entry point `name`, which the headers did not
 * have: it may submit work that gpupool does not see. Remembers the first
 * names, each once. Thread-safe. */
void gp_work_note_unknown(const char *name);

#define GP_MAX_UNKNOWN 8

/* The names remembered, and their number. They live for ever. Thread-safe. */
size_t gp_work_unknown(const char *const **names);

#endif
