/* What is done how often. */
#include "tests/order/world.h"

enum when {
	APART,   /* not while this thread captures */
	ANYTIME, /* then, too */
	ACROSS,  /* not then, and only where there are two contexts */
};

struct op {
	void (*run)(void);
	unsigned weight;
	enum when when;
};

static const struct op ops[] = {
	{op_alloc, 22, ANYTIME},      {op_free, 14, ANYTIME},
	{op_free_async, 1, APART},    {op_fill, 14, ANYTIME},
	{op_expect, 10, ANYTIME},     {op_add, 6, ANYTIME},
	{op_copy, 8, ANYTIME},        {op_set, 6, ANYTIME},
	{op_to_device, 4, ANYTIME},   {op_to_host, 4, ANYTIME},
	{op_sync_copy, 2, APART},     {op_record, 5, ANYTIME},
	{op_wait, 4, ANYTIME},        {op_event_sync, 1, APART},
	{op_event_query, 4, APART},   {op_stream_sync, 1, APART},
	{op_stream_query, 2, APART},  {op_ctx_sync, 1, APART},
	{op_stream_create, 3, APART}, {op_stream_destroy, 1, APART},
	{op_capture, 2, APART},       {op_launch_graph, 5, ANYTIME},
	{op_values, 2, APART},        {op_host_function, 1, ANYTIME},
	{op_across, 16, ACROSS},      {op_across_host, 5, ACROSS},
	{op_peer, 6, ACROSS},
};
#define OPS (sizeof(ops) / sizeof(*ops))

void operate(bool capture)
{
	static unsigned sum;
	uint32_t at;

	if (!sum)
		for (size_t i = 0; i < OPS; i++)
			if (ops[i].when != ACROSS || w.contexts > 1)
				sum += ops[i].weight;
	at = draw(sum);
	for (size_t i = 0; i < OPS; i++) {
		if (at < ops[i].weight) {
			if (!capture || ops[i].when == ANYTIME)
				ops[i].run();
			return;
		}
		at -= ops[i].weight;
	}
}
