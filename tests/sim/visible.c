/*
 * The cards there are, and those that the process sees: CUDA_VISIBLE_DEVICES
 * as the driver reads it, and MIG.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/gpusim.h"
#include "tests/sim/share.h"
#include "tests/sim/sim.h"

#define TEXT_MAX 64

/* Devices that nobody shares are nobody else's. The number comes first, so that
 * the beginning says which it is. */
void sim_card_uuid(int card, int instance, unsigned char uuid[16])
{
	uint64_t owner =
		sim_share_is_on() ? sim_share_name() : (uint64_t)getpid() << 32;

	memcpy(uuid, instance < 0 ? "gpu" : "mig", 3);
	uuid[3] = (unsigned char)(instance < 0 ? card : card * 16 + instance);
	memcpy(uuid + 4, "sim", 3);
	memcpy(uuid + 7, &owner, sizeof(owner));
	uuid[15] = uuid[3];
}

static void spell(int card, int instance, char text[TEXT_MAX])
{
	unsigned char b[16];
	size_t n;

	sim_card_uuid(card, instance, b);
	n = (size_t)snprintf(text, TEXT_MAX, instance < 0 ? "GPU-" : "MIG-");
	for (int i = 0; i < 16; i++)
		n += (size_t)snprintf(
			text + n, TEXT_MAX - n, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

static bool is_number(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (!isdigit((unsigned char)*text))
			return false;
	return true;
}

/* The card or instance that one word names. */
static bool find(const char *word, int *card, int *instance)
{
	int instances = (int)sim.settings.mig;
	char text[TEXT_MAX];

	for (*card = 0; *card < (int)sim.settings.devices; ++*card)
		for (*instance = instances ? 0 : -1; *instance < instances;
		     ++*instance) {
			if (!instances && is_number(word)) {
				if (atoi(word) == *card)
					return true;
				continue;
			}
			spell(*card, *instance, text);
			if (strlen(word) > 4 &&
			    !strncmp(word, text, strlen(word)))
				return true;
			if (!instances)
				break;
		}
	return false;
}

static uint64_t memory_of(int card, int instance)
{
	uint64_t bytes =
		sim.settings.memory + (uint64_t)card * sim.settings.memory_step;

	return instance < 0 ? bytes : bytes / sim.settings.mig;
}

static void add(int card, int instance)
{
	struct sim_device *device = &sim.device[sim.devices];

	device->ordinal = sim.devices++;
	device->card = card;
	device->instance = instance;
	device->total = memory_of(card, instance);
}

void sim_visible(void)
{
	const char *text = getenv("CUDA_VISIBLE_DEVICES");
	int most = sim.settings.mig ? 1 : SIM_DEVICES_MAX;
	char *copy, *word, *rest;
	int card, instance;

	if (!text) {
		for (card = 0; card < (int)sim.settings.devices; card++)
			if (sim.devices < most)
				add(card, sim.settings.mig ? 0 : -1);
		return;
	}
	copy = strdup(text);
	for (rest = copy; copy && (word = strsep(&rest, ","));) {
		if (sim.devices == most || !find(word, &card, &instance))
			break;
		add(card, instance);
	}
	free(copy);
}

__attribute__((visibility("default"))) int gpusim_card(int card, int instance,
						       struct gpusim_card *out)
{
	sim_settings_read();
	if (card < 0 || card >= (int)sim.settings.devices ||
	    instance >= (int)sim.settings.mig)
		return -1;
	sim_card_uuid(card, instance, out->uuid);
	out->total = memory_of(card, instance);
	out->used = 0;
	sim_lock();
	for (int i = 0; i < sim.devices; i++) {
		const struct sim_device *device = &sim.device[i];

		if (device->card == card &&
		    (instance < 0 || device->instance == instance))
			out->used += device->used + device->context_used +
				     sim_share_others(device->ordinal);
	}
	sim_unlock();
	return 0;
}

__attribute__((visibility("default"))) int
gpusim_process(int card, unsigned i, unsigned *pid, uint64_t *bytes)
{
	bool found = false;

	sim_settings_read();
	sim_lock();
	for (int at = 0; at < sim.devices; at++)
		if (sim.device[at].card == card && !found)
			found = sim_share_process(i, at, pid, bytes);
	sim_unlock();
	return found ? 0 : -1;
}
