/*
 * One line on stderr, whatever happens. Each case runs in a child: the number
 * of lines is limited for a process.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "stats/log.h"

static char heard[1 << 17];

/* What body() writes to stderr. */
static const char *listen_to(void (*body)(void))
{
	size_t used = 0;
	ssize_t part;
	int ends[2], status;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		errno = 77;
		body();
		_exit(errno == 77 ? 0 : 1);
	}
	close(ends[1]);
	while ((part = read(ends[0], heard + used, sizeof(heard) - 1 - used)) >
	       0)
		used += (size_t)part;
	heard[used] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status))
		fail_msg("died by signal %d", WTERMSIG(status));
	assert_int_equal(WEXITSTATUS(status), 0); /* errno is preserved */
	return heard;
}

static void warn_formats(void)
{
	gp_warn("%s %d %u %x %llu", "text", -1, 2u, 255u, 1ull << 40);
}

static void note_formats(void)
{
	gp_note("report %s", "/tmp/x");
}

static void quiet(void)
{
	gp_log_quiet(true);
	gp_note("not this");
	gp_warn("but this");
	gp_log_quiet(false);
	gp_note("and this");
}

static void test_lines(void **state)
{
	(void)state;
	assert_string_equal(listen_to(warn_formats),
			    "gpupool: text -1 2 ff 1099511627776\n");
	assert_string_equal(listen_to(note_formats),
			    "gpupool: report /tmp/x\n");
	assert_string_equal(listen_to(quiet),
			    "gpupool: but this\ngpupool: and this\n");
}

static void untidy(void)
{
	gp_warn("a\nb\033[31m\x7f caf\xc3\xa9");
}

static void very_long(void)
{
	static char text[5000];

	memset(text, 'x', sizeof(text) - 1);
	gp_warn("%s", text);
}

static void test_one_line(void **state)
{
	(void)state;
	assert_string_equal(listen_to(untidy),
			    "gpupool: a?b?[31m? caf\xc3\xa9\n");
	listen_to(very_long);
	assert_in_range(strlen(heard), 900, 1024);
	assert_string_equal(heard + strlen(heard) - 5, "x...\n");
	assert_ptr_equal(strchr(heard, '\n'), heard + strlen(heard) - 1);
}

static int count_lines(void)
{
	int lines = 0;

	for (const char *c = heard; *c; c++)
		lines += *c == '\n';
	return lines;
}

static void many(void)
{
	for (int i = 1; i <= 3 * GP_LOG_MAX; i++)
		gp_warn("warning %d", i);
	for (int i = 1; i <= 3 * GP_LOG_MAX; i++)
		gp_note("note %d", i);
	gp_note_last("summary");
	gp_note_last("summary, once more");
}

static void long_last(void)
{
	for (int i = 0; i < GP_LOG_MAX; i++)
		very_long();
}

static void test_limit(void **state)
{
	(void)state;
	listen_to(many);
	assert_int_equal(count_lines(), GP_LOG_MAX + 1);
	assert_non_null(strstr(heard, "gpupool: warning 1\n"));
	assert_non_null(strstr(
		heard,
		"gpupool: warning 90 (further messages are not shown)\n"));
	assert_non_null(strstr(heard, "gpupool: note 1\n"));
	assert_non_null(strstr(
		heard, "gpupool: note 10 (further messages are not shown)\n"));
	/* The summary at exit has its line whatever came before, once. */
	assert_non_null(strstr(heard, "gpupool: summary\n"));
	listen_to(long_last);
	assert_non_null(
		strstr(heard, "x... (further messages are not shown)\n"));
	assert_int_equal(count_lines(), 90);
}

static void *warn_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++)
		gp_warn("from a thread");
	return NULL;
}

static void threads(void)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, warn_often, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	errno = 77;
}

static void test_threads(void **state)
{
	(void)state;
	listen_to(threads);
	assert_int_equal(count_lines(), 90);
}

static void closed(void)
{
	close(STDERR_FILENO);
	gp_warn("nobody hears");
	gp_note("this");
}

static void broken(void)
{
	int ends[2];

	signal(SIGPIPE, SIG_DFL);
	if (pipe(ends))
		_exit(2);
	dup2(ends[1], STDERR_FILENO);
	close(ends[0]);
	close(ends[1]);
	gp_warn("a broken pipe");
}

static void on_alarm(int signal)
{
	(void)signal;
	gp_warn("from a handler %d", 1);
}

static void handler(void)
{
	signal(SIGALRM, on_alarm);
	raise(SIGALRM);
}

static void test_bad_stderr(void **state)
{
	(void)state;
	assert_string_equal(listen_to(closed), "");
	assert_string_equal(listen_to(broken), "");
	assert_string_equal(listen_to(handler), "gpupool: from a handler 1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_one_line),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_bad_stderr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
