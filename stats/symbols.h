/*
 * Names of functions that a library or program does not export: from the symbol
 * table that is left in its file unless it was stripped.
 */
#ifndef GP_STATS_SYMBOLS_H
#define GP_STATS_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

/* The function around `address`, counted from where the linker put the file, by
 * its own table; "" if there is none. Reads the file, which may be damaged or
 * another one by now. Allocates nothing. errno is not preserved. */
void gp_symbol_find(const char *path, uint64_t address, char *name,
		    size_t size);

#endif
