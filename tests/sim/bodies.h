/*
 * The bodies behind the entry points, declared from the table with the type
 * that cuda.h gives to the exported name: a body of another type does not
 * build. Two rows may share a body; then both names have the same type.
 */
#ifndef SIM_BODIES_H
#define SIM_BODIES_H

#include "tests/sim/table.h"

#define SIM(name, version, twin, flags, body) __typeof__(name) body;
#define SIM_NO(name, version)
#include "tests/sim/sim.def"
#undef SIM
#undef SIM_NO

#endif
