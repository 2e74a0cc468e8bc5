#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "shim/program.h"

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* By the beginning of the name: python3.11, bash. */
static bool is_interpreter(const char *name)
{
	static const char *const names[] = {"python", "pypy",  "perl", "ruby",
					    "node",   "julia", "lua",  "bash",
					    "dash",   "sh",    "zsh",  "ksh"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	}
	return false;
}

/* The first argument that is no option, and what `python -m` names; NULL if
 * there is none, or the program stands in the command line itself. */
static const char *script(char *args, size_t len)
{
	const char *at = memchr(args, '\0', len), *end = args + len;

	while (at && ++at < end) {
		if (*at != '-')
			return at;
		if (!strcmp(at, "-c") || !strcmp(at, "-e") || !strcmp(at, "-"))
			return NULL;
		at = memchr(at, '\0', (size_t)(end - at));
	}
	return NULL;
}

bool gp_program_is_meant(const struct gp_conf *conf)
{
	static const char deleted[] = " (deleted)";
	char exe[PATH_MAX], args[4096];
	const char *name;
	ssize_t len;
	int fd;

	if (gp_conf_is_for(conf, "")) /* "*", the default */
		return true;
	if (gp_conf_is_for(conf, program_invocation_short_name))
		return true;
	len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (len < 0)
		return false;
	exe[len] = '\0';
	/* The kernel adds it after an upgrade. */
	if ((size_t)len >= sizeof(deleted) &&
	    !strcmp(exe + len - (sizeof(deleted) - 1), deleted))
		exe[len - (ssize_t)(sizeof(deleted) - 1)] = '\0';
	if (gp_conf_is_for(conf, base(exe)))
		return true;
	if (!is_interpreter(base(exe)))
		return false;
	fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, args, sizeof(args) - 1);
	close(fd);
	if (len <= 0)
		return false;
	args[len] = '\0';
	name = script(args, (size_t)len);
	return name && gp_conf_is_for(conf, base(name));
}
