/*
 * Between follow.c and follow_waits.c.
 */
#ifndef GP_SHIM_FOLLOW_IMPL_H
#define GP_SHIM_FOLLOW_IMPL_H

#include "shim/follow.h"

struct gp_context;
struct gp_order;

/* The order of the context's pool; NULL where streams are not followed. */
struct gp_order *gp_follow_order(const struct gp_context *context);

/* Calls that wait or ask: what they prove once they have succeeded. */
void gp_follow_wait_begins(struct gp_work *work, const struct gp_work_row *row);
void gp_follow_wait_ended(struct gp_work *work, const struct gp_work_row *row,
			  CUresult rc);

/* Around the record of an event, within its submission. */
void gp_follow_records(struct gp_work *work);
void gp_follow_recorded(struct gp_work *work, CUresult rc);

#endif
