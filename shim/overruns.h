/*
 * What guard_bytes has found: bytes beside an allocation that somebody wrote.
 */
#ifndef GP_SHIM_OVERRUNS_H
#define GP_SHIM_OVERRUNS_H

struct gp_damage;
struct gp_report;

/* In the free that found it: told on stderr, and kept for the report. Any
 * thread. */
void gp_overrun_found(const struct gp_damage *damage);

/* What was found so far, into the report. Any thread. */
void gp_overruns_report(struct gp_report *report);

#endif
