/*
 * GPUPOOL_SIM: strict, so that a mistyped test does not pass by accident.
 */
#include "tests/sim/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/table.h"

enum type { NUMBER, SIZE, PATH, FAIL, HANG };

struct key {
	const char *name;
	enum type type;
	size_t offset;
	uint64_t initial, min, max;
};

#define AT(field) offsetof(struct sim_settings, field)

static const struct key keys[] = {
	{"memory", SIZE, AT(memory), 16ull << 30, 4ull << 20, 1ull << 42},
	{"memory_step", SIZE, AT(memory_step), 0, 0, 1ull << 40},
	{"mig", NUMBER, AT(mig), 0, 0, SIM_INSTANCES_MAX},
	{"context", SIZE, AT(context), UINT64_MAX, 0, 1ull << 40},
	{"devices", NUMBER, AT(devices), 1, 1, SIM_DEVICES_MAX},
	{"version", NUMBER, AT(version), CUDA_VERSION, 11000, 99000},
	{"kernel_us", NUMBER, AT(kernel_us), 0, 0, 60000000},
	{"copy_us", NUMBER, AT(copy_us), 0, 0, 60000000},
	{"host_us", NUMBER, AT(host_us), 0, 0, 60000000},
	{"alloc_us", NUMBER, AT(alloc_us), 0, 0, 60000000},
	{"free_us", NUMBER, AT(free_us), 0, 0, 60000000},
	{"destroy_us", NUMBER, AT(destroy_us), 0, 0, 60000000},
	{"launch_us", NUMBER, AT(launch_us), 0, 0, 60000000},
	{"schedule", NUMBER, AT(schedule), 0, 0, UINT32_MAX},
	{"history", NUMBER, AT(history), 0, 0, 1000000},
	{"vmm", NUMBER, AT(vmm), 1, 0, 1},
	{"contexts_return", NUMBER, AT(contexts_return), 0, 0, 1},
	{"pools", NUMBER, AT(pools), 1, 0, 1},
	{"peer", NUMBER, AT(peer), 1, 0, 1},
	{"rdma", NUMBER, AT(rdma), 1, 0, 1},
	{"pageable", NUMBER, AT(pageable), 0, 0, 1},
	{"leak_report", NUMBER, AT(leak_report), 0, 0, 1},
	{"call_log", PATH, AT(call_log), 0, 0, 0},
	{"stats", PATH, AT(stats), 0, 0, 0},
	{"shared", PATH, AT(shared), 0, 0, 0},
	{"fail", FAIL, 0, 0, 0, 0},
	{"hang", HANG, 0, 0, 0, 0},
};

static bool refuse(const char *item, const char *why)
{
	fprintf(stderr, "gpusim: GPUPOOL_SIM: %s: %s\n", item, why);
	return false;
}

/* A decimal number at *text, which is moved behind it. */
static bool read_number(const char **text, uint64_t *value)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*value = strtoull(*text, &end, 10);
	*text = end;
	return errno == 0;
}

static bool read_size(const char *text, uint64_t *value)
{
	static const struct {
		const char *suffix;
		int shift;
	} units[] = {{"", 0},     {"B", 0},    {"KiB", 10},
		     {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};

	if (!read_number(&text, value))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(text, units[i].suffix))
			continue;
		if (*value > UINT64_MAX >> units[i].shift)
			return false;
		*value <<= units[i].shift;
		return true;
	}
	return false;
}

/* F@N; what is behind it, NULL after telling what is wrong. */
static const char *read_call(const char *item, const char *text,
			     struct sim_row **row, uint64_t *nth)
{
	const char *at = strchr(text, '@');
	char name[64];

	if (!at || (size_t)(at - text) >= sizeof(name)) {
		refuse(item, "not FUNCTION@N, FUNCTION@N+ or either =CODE");
		return NULL;
	}
	memcpy(name, text, (size_t)(at - text));
	name[at - text] = 0;
	*row = sim_row_find(name);
	if (!*row) {
		refuse(item, "no such function");
		return NULL;
	}
	at++;
	if (!read_number(&at, nth) || !*nth || *nth > LONG_MAX) {
		refuse(item, "the number of the call is not 1, 2, ...");
		return NULL;
	}
	return at;
}

static bool read_hang(const char *item, const char *text)
{
	struct sim_row *row;
	uint64_t nth;
	const char *at = read_call(item, text, &row, &nth);

	if (!at)
		return false;
	if (*at)
		return refuse(item, "something is behind it");
	sim_row_hang(row, (long)nth);
	return true;
}

/* F@N, F@N+, each with =E behind it or not. */
static bool read_fail(const char *item, const char *text)
{
	uint64_t nth, code = 0;
	struct sim_row *row;
	const char *at = read_call(item, text, &row, &nth);
	bool onwards;

	if (!at)
		return false;
	onwards = *at == '+';
	at += onwards;
	if (*at == '=') {
		at++;
		if (!read_number(&at, &code) || !code || code > INT_MAX)
			return refuse(item, "not a CUresult");
	}
	if (*at)
		return refuse(item, "something is behind it");
	sim_row_fail(row, (long)nth, onwards ? LONG_MAX : (long)nth, (int)code);
	return true;
}

static bool read_value(const struct key *key, const char *item,
		       const char *text, struct sim_settings *settings)
{
	char *field = (char *)settings + key->offset;
	uint64_t value;

	if (key->type == FAIL)
		return read_fail(item, text);
	if (key->type == HANG)
		return read_hang(item, text);
	if (key->type == PATH) {
		if (!*text || strlen(text) >= PATH_MAX)
			return refuse(item, "not a path");
		strcpy(field, text);
		return true;
	}
	if (key->type == SIZE) {
		if (!read_size(text, &value))
			return refuse(item, "not a size such as 16GiB");
	} else if (!read_number(&text, &value) || *text) {
		return refuse(item, "not a number");
	}
	if (value < key->min || value > key->max)
		return refuse(item, "out of range");
	memcpy(field, &value, sizeof(value));
	return true;
}

static bool read_item(const char *item, struct sim_settings *settings)
{
	const char *colon = strchr(item, ':');

	if (!colon)
		return refuse(item, "not key:value");
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		size_t n = strlen(keys[i].name);

		if (n == (size_t)(colon - item) &&
		    !memcmp(item, keys[i].name, n))
			return read_value(&keys[i], item, colon + 1, settings);
	}
	return refuse(item, "no such key");
}

/* Not given: 64 MiB, less on a small device. */
static void settings_context(struct sim_settings *settings)
{
	uint64_t share = settings->memory / 16 & ~((2ull << 20) - 1);

	if (settings->context == UINT64_MAX)
		settings->context = share < 64ull << 20 ? share : 64ull << 20;
}

bool sim_settings_parse(const char *text, struct sim_settings *settings)
{
	char *copy, *item, *rest;
	bool good = true;

	memset(settings, 0, sizeof(*settings));
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (keys[i].type == NUMBER || keys[i].type == SIZE)
			memcpy((char *)settings + keys[i].offset,
			       &keys[i].initial, sizeof(uint64_t));
	if (!text || !*text) {
		settings_context(settings);
		return true;
	}
	copy = strdup(text);
	if (!copy)
		return refuse(text, "out of host memory");
	for (rest = copy; good && (item = strsep(&rest, ","));)
		good = read_item(item, settings);
	free(copy);
	settings_context(settings);
	if (good && settings->context >= settings->memory)
		good = refuse("context", "leaves no memory");
	return good;
}
