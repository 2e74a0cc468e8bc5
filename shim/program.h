/*
 * The names this program goes by, against the setting `only`.
 */
#ifndef GP_SHIM_PROGRAM_H
#define GP_SHIM_PROGRAM_H

#include <stdbool.h>

#include "conf/conf.h"

/* Whether `only` names this program: by its executable file, by argv[0], or by
 * the script that an interpreter runs. Reads /proc, once, and only when `only`
 * was set. errno is not preserved. */
bool gp_program_is_meant(const struct gp_conf *conf);

#endif
