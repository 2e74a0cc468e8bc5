/*
 * Inside conf/: what is said about settings that are not taken as written.
 * One sentence each, on one line.
 */
#ifndef GP_CONF_REMARK_H
#define GP_CONF_REMARK_H

#include "conf/scan.h"
#include "conf/value.h"

/* Where the sentences go. */
struct gp_remarks {
	struct gp_conf *conf; /* told of limits that are lost */
	gp_conf_message *message;
	void *arg;
	int refused;
	char file[264];      /* "" outside of a file */
	unsigned line;       /* in the file, from 1 */
	char sentence[1024]; /* the last one said */
};

/* Enough of a span for a message, without control characters. */
struct gp_shown {
	char text[260];
};
struct gp_shown gp_show(struct gp_span span);
struct gp_shown gp_show_path(struct gp_span span); /* longer */

__attribute__((format(printf, 2, 3))) void gp_say(struct gp_remarks *remarks,
						  const char *format, ...);

/* The sentence just said is about a limit that does not hold. */
void gp_lose_limit(struct gp_remarks *remarks);

/* Each says its sentence and counts the refusal. `error` as gp_conf_read(). */
void gp_refuse(struct gp_remarks *remarks, const struct gp_conf_row *row,
	       const struct gp_setting *setting, int error);
void gp_refuse_empty(struct gp_remarks *remarks, const struct gp_conf_row *row,
		     const struct gp_setting *setting);
void gp_refuse_unknown(struct gp_remarks *remarks,
		       const struct gp_setting *setting);
/* `path`: the file that was tried, "" if none was. */
void gp_refuse_file(struct gp_remarks *remarks,
		    const struct gp_setting *setting, const char *path,
		    int error);

/* One sentence for all options of PyTorch's that were given and do nothing
 * here; given[i] belongs to gp_conf_foreigners[i]. */
void gp_say_foreign(struct gp_remarks *remarks, const bool *given);

#endif
