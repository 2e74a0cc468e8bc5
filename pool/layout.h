/*
 * What lies where in a pool's memory, for reports.
 */
#ifndef GP_POOL_LAYOUT_H
#define GP_POOL_LAYOUT_H

#include "pool/pool.h"
#include "stats/layout.h"

/* Its segments and live blocks into the layout's tables, which the caller has
 * set up with their room; the rest of it is filled in, but for the time. Where
 * blocks find no room, neighbours are told as one: small ones first. Other
 * threads may allocate and free meanwhile; what they do may be seen or not. Any
 * thread; takes the pool's lock again and again, never for long. */
void gp_pool_layout(struct gp_pool *pool, struct gp_layout *layout);

#endif
