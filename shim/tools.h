/*
 * Profilers, debuggers and checkers of CUDA programs. They look at each
 * allocation, and in a pool would see a few large ones; so beside them device
 * memory comes from the driver.
 */
#ifndef GP_SHIM_TOOLS_H
#define GP_SHIM_TOOLS_H

/* The name of the one that this process runs under, a constant; NULL: none is
 * known. Looks at the environment, at what is mapped, and at who traces the
 * process. Any thread; the dynamic linker is asked, so no lock may be held. */
const char *gp_tool_here(void);

#endif
