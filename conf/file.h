/*
 * Inside conf/: the text of a settings file.
 */
#ifndef GP_CONF_FILE_H
#define GP_CONF_FILE_H

#include "conf/value.h"

#define GP_CONF_MAX_TEXT (64u << 10) /* bytes of settings, anywhere */

struct gp_conf_file {
	struct gp_span text;
	char *map;
};

/* 0 and the whole text, or -errno: -EFBIG above GP_CONF_MAX_TEXT, -ENOTSUP for
 * what is neither a file nor a directory. Does not wait, does not use malloc.
 * Thread-safe. */
int gp_conf_file_open(const char *path, struct gp_conf_file *file);
void gp_conf_file_close(struct gp_conf_file *file);

#endif
