/*
 * The texts in tests/fuzz/corpus/conf, which a fuzzer chose because each takes
 * another way through the parser, under the fuzzer's own checks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <limits.h>
#include <unistd.h>
#include <cmocka.h>

#define GP_REPLAY
#include "tests/fuzz/conf-fuzz.c"

/* The build tree lies somewhere below the sources. */
static DIR *open_corpus(char *path, size_t size)
{
	char here[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", here, sizeof(here) - 1);
	DIR *dir = NULL;
	char *slash;

	assert_true(len > 0);
	here[len] = '\0';
	while (!dir && (slash = strrchr(here, '/'))) {
		*slash = '\0';
		snprintf(path, size, "%s/tests/fuzz/corpus/conf", here);
		dir = opendir(path);
	}
	return dir;
}

static void test_corpus(void **state)
{
	char place[PATH_MAX + 32], path[PATH_MAX + 300];
	static uint8_t data[65536];
	DIR *dir = open_corpus(place, sizeof(place));
	const struct dirent *entry;
	size_t files = 0, bytes = 0;

	(void)state;
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		FILE *file;
		size_t len;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", place, entry->d_name);
		file = fopen(path, "rb");
		assert_non_null(file);
		len = fread(data, 1, sizeof(data), file);
		fclose(file);
		LLVMFuzzerTestOneInput(data, len);
		if (failure)
			fail_msg("%s: %s", path, failure);
		files++;
		bytes += len;
	}
	closedir(dir);
	/* Enough to be of use, and kept small. */
	assert_in_range(files, 50, 199);
	assert_in_range(bytes, 1, 64 << 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_corpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
