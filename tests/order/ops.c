/* What is done how often. */
#include "tests/order/world.h"

struct op {
	void (*run)(void);
	unsigned weight;
	bool captures; /* also while this thread captures */
};

static const struct op ops[] = {
	{op_alloc, 22, true},         {op_free, 14, true},
	{op_free_async, 1, false},    {op_fill, 14, true},
	{op_expect, 10, true},        {op_add, 6, true},
	{op_copy, 8, true},           {op_set, 6, true},
	{op_to_device, 4, true},      {op_to_host, 4, true},
	{op_sync_copy, 2, false},     {op_record, 5, true},
	{op_wait, 4, true},           {op_event_sync, 1, false},
	{op_event_query, 4, false},   {op_stream_sync, 1, false},
	{op_stream_query, 2, false},  {op_ctx_sync, 1, false},
	{op_stream_create, 3, false}, {op_stream_destroy, 1, false},
	{op_capture, 2, false},       {op_launch_graph, 5, true},
	{op_values, 2, false},        {op_host_function, 1, true},
};
#define OPS (sizeof(ops) / sizeof(*ops))

void operate(bool capture)
{
	static unsigned sum;
	uint32_t at;

	if (!sum)
		for (size_t i = 0; i < OPS; i++)
			sum += ops[i].weight;
	at = draw(sum);
	for (size_t i = 0; i < OPS; i++) {
		if (at < ops[i].weight) {
			if (!capture || ops[i].captures)
				ops[i].run();
			return;
		}
		at -= ops[i].weight;
	}
}
