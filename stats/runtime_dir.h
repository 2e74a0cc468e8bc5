/*
 * The runtime directory: $XDG_RUNTIME_DIR/gpupool, else /tmp/gpupool-UID.
 *
 * Mode 0700 and ours, or not used at all: what lies in it is believed as far
 * as its owner is. Every process that uses a GPU has one file there
 * (process_file.h), PID-START-N.gpupool, which outlives it. Any thread.
 */
#ifndef GP_STATS_RUNTIME_DIR_H
#define GP_STATS_RUNTIME_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/process_id.h"

#define GP_FILE_SUFFIX ".gpupool"
#define GP_FILE_NAME   64 /* room for a file's name */

/* Finds the directory, made if need be. `xdg`: the value of XDG_RUNTIME_DIR,
 * or NULL. Returns a descriptor, close it; or -errno with the directory's name
 * in path[PATH_MAX] and in *why, a string constant, what is wrong with it.
 * Preserves errno. */
int gp_runtime_dir_open(const char *xdg, char *path, const char **why);

/* The same directory again, by the path that was found. -errno if it is not
 * what it was. */
int gp_runtime_dir_reopen(const char *path);

/* The parts of a process file's name; false if it is none. */
struct gp_file_name {
	uint32_t pid;
	uint64_t start;
	uint32_t image; /* exec makes a new one in the same process */
};
bool gp_file_name_read(const char *name, struct gp_file_name *parts);
void gp_file_name_print(const struct gp_file_name *parts,
			char name[GP_FILE_NAME]);

/* Calls `visit` for every name in the directory that has not to do with "."
 * files, at most `most` of them. 0 or -errno. */
int gp_runtime_dir_each(int dir, unsigned most,
			void (*visit)(void *arg, int dir, const char *name),
			void *arg);

/* Of processes that have ended, keeps the newest files: at most `files`, and
 * together at most `bytes`. Looks at a bounded number. */
void gp_runtime_dir_sweep(int dir, const struct gp_process_id *self,
			  uint64_t files, uint64_t bytes);

#endif
