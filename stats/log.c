#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stats/log.h"
#include "stats/output.h"

#define PREFIX     "gpupool: "
#define PREFIX_LEN (sizeof(PREFIX) - 1)
#define MAX_LINE   1024

/* Notes have lines of their own, so that warnings do not use up the summary
 * at exit. */
#define MAX_NOTES  10
_Static_assert(MAX_NOTES < GP_LOG_MAX, "no lines left for warnings");

static _Atomic bool quiet;
static _Atomic unsigned warnings, notes;

/* Counts up to the limit and stays there. */
static unsigned take(_Atomic unsigned *count, unsigned limit)
{
	unsigned taken = atomic_load_explicit(count, memory_order_relaxed);

	while (taken <= limit &&
	       !atomic_compare_exchange_weak_explicit(count, &taken, taken + 1,
						      memory_order_relaxed,
						      memory_order_relaxed))
		;
	return taken + 1;
}

/* One message is one line whatever is in it, also a path with a line feed. */
static size_t tidy(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = '?';
	}
	text[len] = '\n';
	return len + 1;
}

__attribute__((format(printf, 2, 0))) static void
write_line(bool last, const char *format, va_list args)
{
	static const char more[] = " (further messages are not shown)";
	const size_t room = MAX_LINE - PREFIX_LEN - sizeof(more) - 1;
	char line[MAX_LINE];
	char *text = line + PREFIX_LEN;
	size_t len;
	int wanted;

	memcpy(line, PREFIX, PREFIX_LEN);
	wanted = vsnprintf(text, room, format, args);
	if (wanted < 0)
		return;
	len = (size_t)wanted;
	if (len >= room) {
		len = room - 1;
		memcpy(text + len - 3, "...", 3);
	}
	if (last) {
		memcpy(text + len, more, sizeof(more) - 1);
		len += sizeof(more) - 1;
	}
	len = tidy(text, len);
	/* Nobody is left to be told that stderr does not work. */
	gp_write_all(STDERR_FILENO, line, PREFIX_LEN + len);
}

void gp_warn(const char *format, ...)
{
	const unsigned limit = GP_LOG_MAX - MAX_NOTES;
	const unsigned number = take(&warnings, limit);
	const int saved_errno = errno;
	va_list args;

	if (number > limit)
		return;
	va_start(args, format);
	write_line(number == limit, format, args);
	va_end(args);
	errno = saved_errno;
}

void gp_note(const char *format, ...)
{
	const int saved_errno = errno;
	unsigned number;
	va_list args;

	if (atomic_load_explicit(&quiet, memory_order_relaxed))
		return;
	number = take(&notes, MAX_NOTES);
	if (number > MAX_NOTES)
		return;
	va_start(args, format);
	write_line(number == MAX_NOTES, format, args);
	va_end(args);
	errno = saved_errno;
}

void gp_note_last(const char *format, ...)
{
	static _Atomic bool said;
	const int saved_errno = errno;
	va_list args;

	if (atomic_load_explicit(&quiet, memory_order_relaxed) ||
	    atomic_exchange_explicit(&said, true, memory_order_relaxed))
		return;
	va_start(args, format);
	write_line(false, format, args);
	va_end(args);
	errno = saved_errno;
}

void gp_log_quiet(bool on)
{
	atomic_store_explicit(&quiet, on, memory_order_relaxed);
}
