/*
 * Names of files and directories.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/value.h"

/* Quoted ("\"" and "\\" stand for themselves) or as it is. */
int gp_path_read(struct gp_span text, char *path)
{
	const bool quoted = text.len >= 2 && text.at[0] == '"' &&
			    text.at[text.len - 1] == '"';
	char copy[PATH_MAX];
	size_t used = 0;

	if (quoted) {
		text.at++;
		text.len -= 2;
	}
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if (quoted && c == '\\') {
			if (++i == text.len)
				return -EINVAL; /* the quote is not the end */
			c = text.at[i];
		} else if (c == '"' || (!quoted && gp_is_blank(c))) {
			return -EINVAL;
		}
		if (used == PATH_MAX - 1)
			return -ERANGE;
		copy[used++] = c;
	}
	copy[used] = '\0';
	/* The rest is cleared too, so that equal paths are equal bytes. */
	memset(path, 0, PATH_MAX);
	memcpy(path, copy, used);
	return 0;
}

static bool needs_quotes(const char *path)
{
	if (path[0] == '\0' || path[0] == '[')
		return true;
	for (; *path; path++) {
		if (gp_is_blank(*path) || *path == ',' || *path == '"')
			return true;
	}
	return false;
}

void gp_path_print(const char *path, char *buf, size_t size)
{
	size_t used = 0;

	if (!needs_quotes(path)) {
		snprintf(buf, size, "%s", path);
		return;
	}
	if (used < size)
		buf[used++] = '"';
	for (; *path; path++) {
		if ((*path == '"' || *path == '\\') && used < size)
			buf[used++] = '\\';
		if (used < size)
			buf[used++] = *path;
	}
	if (used < size)
		buf[used++] = '"';
	buf[used < size ? used : size - 1] = '\0';
}
