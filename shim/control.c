/* What others may ask of this process; see control.h. */
#include "shim/control.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/value.h"
#include "shim/context.h"
#include "shim/devices.h"
#include "shim/ledger.h"
#include "shim/reporter.h"
#include "shim/state.h"
#include "stats/format.h"
#include "stats/report.h"
#include "stats/requests.h"
#include "stats/ring.h"

__attribute__((format(printf, 2, 3))) static void say(char *answer,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(answer, GP_REQUEST_TEXT - 1, format, args);
	va_end(args);
}

static bool read_size(const char *text, uint64_t *bytes)
{
	const struct gp_span span = {text, strlen(text)};

	return gp_bytes_read(span, bytes) == 0;
}

static void trim(const char *argument, char *answer)
{
	uint64_t bytes = UINT64_MAX, given, left;
	char text[32], rest[32];

	if (*argument && !read_size(argument, &bytes)) {
		say(answer, "no not a size: %.40s (as 8GiB)", argument);
		return;
	}
	given = gp_context_trim(-1, bytes, NULL);
	gp_ledger_update();
	left = given < bytes ? gp_context_cached(-1) : 0;
	say(answer, "ok gave back %s (%llu bytes)%s%s%s",
	    gp_format_bytes(given, text, sizeof(text)),
	    (unsigned long long)given, left ? "; it still caches " : "",
	    left ? gp_format_bytes(left, rest, sizeof(rest)) : "",
	    left     ? ", beside what is in use"
	    : !given ? "; nothing was cached"
		     : "");
}

static bool read_uuid(const char *hex, uint8_t uuid[16])
{
	for (size_t i = 0; i < 16; i++) {
		unsigned byte;

		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			return false;
		uuid[i] = (uint8_t)byte;
	}
	return hex[32] == '\0';
}

static void trim_for(const char *argument, char *answer)
{
	unsigned long long bytes;
	uint64_t given;
	uint8_t uuid[16];
	char hex[36];
	unsigned ms;

	if (sscanf(argument, "%20llu %33s %9u", &bytes, hex, &ms) != 3 ||
	    strlen(hex) != 32 || !read_uuid(hex, uuid)) {
		say(answer, "no trim-for takes BYTES UUID MS");
		return;
	}
	given = gp_context_trim_for(uuid, bytes, gp_settings()->reserve_floor,
				    ms);
	gp_ledger_count_gave(given);
	gp_ledger_update();
	say(answer, "ok %llu", (unsigned long long)given);
}

static void limit(const char *argument, char *answer)
{
	uint64_t bytes = GP_NO_LIMIT;
	char text[32] = "unlimited";
	int count, rc = 0;

	if (strcmp(argument, "unlimited") != 0) {
		if (!read_size(argument, &bytes) || bytes < 1u << 20) {
			say(answer,
			    "no not a size: %.40s (from 1 MiB up, as 8GiB, "
			    "or unlimited)",
			    argument);
			return;
		}
		gp_format_bytes(bytes, text, sizeof(text));
	}
	if (gp_real()->cuDeviceGetCount(&count) != CUDA_SUCCESS)
		count = 0;
	for (int i = 0; i < count && !rc; i++) {
		rc = gp_device_set_limit(i, bytes);
		if (!rc)
			gp_ring_add(GP_RING_limit, (uint32_t)i, 0, bytes, 0, 0,
				    0);
	}
	gp_ledger_update();
	if (rc || !count)
		say(answer, "no limit could not be set: %s",
		    strerror(rc ? -rc : ENODEV));
	else
		say(answer, "ok limit %s on each of %d device%s", text, count,
		    count == 1 ? "" : "s");
}

static void reset_peak(const char *argument, char *answer)
{
	(void)argument;
	gp_context_reset_peak();
	gp_ledger_update();
	say(answer, "ok peaks start again");
}

static void report(const char *argument, char *answer)
{
	char path[GP_REQUEST_TEXT - 8];
	int rc;

	(void)argument;
	rc = gp_reporter_now(path, sizeof(path));
	if (rc)
		say(answer, "no cannot write %.300s: %s", path, strerror(-rc));
	else
		say(answer, "ok %s", path);
}

static void ping(const char *argument, char *answer)
{
	(void)argument;
	say(answer, "ok here");
}

static const struct {
	const char *verb;
	void (*serve)(const char *argument, char *answer);
} verbs[] = {
	{"limit", limit},           {"trim", trim},     {"trim-for", trim_for},
	{"reset-peak", reset_peak}, {"report", report}, {"ping", ping},
};

void gp_control(const char *text, char *answer)
{
	const size_t len = strcspn(text, " ");
	const char *argument = text + len + strspn(text + len, " ");

	/* Once the program leaves, the driver may be gone. */
	if (!gp_reporter_may_call()) {
		say(answer, "no it is about to end");
		return;
	}
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strlen(verbs[i].verb) == len &&
		    !memcmp(verbs[i].verb, text, len)) {
			verbs[i].serve(argument, answer);
			return;
		}
	}
	say(answer, "no unknown request: %.*s", (int)(len < 40 ? len : 40),
	    text);
}
