/*
 * Which signals may ask for a report.
 *
 * Not those that cannot be caught, and not those by which the machine reports
 * a fault: a handler that returns from them would run for ever.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "conf/value.h"

static const struct {
	const char *name; /* without SIG */
	int number;
} signals[] = {
	{"USR1", SIGUSR1},   {"USR2", SIGUSR2},     {"HUP", SIGHUP},
	{"INT", SIGINT},     {"QUIT", SIGQUIT},     {"TERM", SIGTERM},
	{"ALRM", SIGALRM},   {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF},
	{"PIPE", SIGPIPE},   {"CHLD", SIGCHLD},     {"CONT", SIGCONT},
	{"TSTP", SIGTSTP},   {"TTIN", SIGTTIN},     {"TTOU", SIGTTOU},
	{"URG", SIGURG},     {"XCPU", SIGXCPU},     {"XFSZ", SIGXFSZ},
	{"WINCH", SIGWINCH}, {"IO", SIGIO},         {"POLL", SIGIO},
	{"PWR", SIGPWR},
};

#define NUM_SIGNALS (sizeof(signals) / sizeof(signals[0]))

/* "+3" or "-3" behind RTMIN or RTMAX. */
static int realtime_read(struct gp_span text, int base, int sign, int *number)
{
	uint64_t offset = 0;
	int error;

	if (text.len) {
		if (text.at[0] != (sign > 0 ? '+' : '-'))
			return -EINVAL;
		error = gp_whole_read(
			(struct gp_span){text.at + 1, text.len - 1}, &offset);
		if (error)
			return error;
	}
	if (offset > (uint64_t)(SIGRTMAX - SIGRTMIN))
		return -ERANGE;
	*number = base + sign * (int)offset;
	return 0;
}

static bool may_ask(uint64_t number)
{
	/* glibc keeps the two below SIGRTMIN for itself. */
	if (number >= (uint64_t)SIGRTMIN && number <= (uint64_t)SIGRTMAX)
		return true;
	for (size_t i = 0; i < NUM_SIGNALS; i++) {
		if ((uint64_t)signals[i].number == number)
			return true;
	}
	return false;
}

int gp_signal_read(struct gp_span text, int *number)
{
	struct gp_span name = text;
	uint64_t value;
	int error;

	if (gp_span_is_nocase(text, "none") || gp_span_is_nocase(text, "off") ||
	    gp_span_is(text, "0")) {
		*number = 0;
		return 0;
	}
	error = gp_whole_read(text, &value);
	if (!error) {
		if (!may_ask(value))
			return -ERANGE;
		*number = (int)value;
		return 0;
	}
	if (text.len > 3 &&
	    gp_span_is_nocase((struct gp_span){text.at, 3}, "SIG"))
		name = (struct gp_span){text.at + 3, text.len - 3};
	for (size_t i = 0; i < NUM_SIGNALS; i++) {
		if (gp_span_is_nocase(name, signals[i].name)) {
			*number = signals[i].number;
			return 0;
		}
	}
	if (name.len >= 5) {
		struct gp_span base = {name.at, 5};
		struct gp_span rest = {name.at + 5, name.len - 5};

		if (gp_span_is_nocase(base, "RTMIN"))
			return realtime_read(rest, SIGRTMIN, 1, number);
		if (gp_span_is_nocase(base, "RTMAX"))
			return realtime_read(rest, SIGRTMAX, -1, number);
	}
	return -EINVAL;
}

void gp_signal_print(int number, char *buf, size_t size)
{
	if (!number) {
		snprintf(buf, size, "none");
		return;
	}
	for (size_t i = 0; i < NUM_SIGNALS; i++) {
		if (signals[i].number == number) {
			snprintf(buf, size, "SIG%s", signals[i].name);
			return;
		}
	}
	snprintf(buf, size, "SIGRTMIN+%d", number - SIGRTMIN);
}
