/*
 * Inside conf/: a text cut into settings, a file into lines. Knows no keys.
 */
#ifndef GP_CONF_SCAN_H
#define GP_CONF_SCAN_H

#include "conf/value.h"

struct gp_setting {
	struct gp_span key, value; /* key "@": value is a file's name */
	bool colon, blank;         /* what stood between key and value */
	bool open;                 /* the value's " or [ is never closed */
	bool comma;                /* something, maybe nothing, follows */
};

/* Takes one setting off the front of *text, with the comma behind it. */
struct gp_setting gp_setting_next(struct gp_span *text);

/* Takes one line off the front of *text; what it returns has no comment and no
 * comma at its end. */
struct gp_span gp_line_next(struct gp_span *text);

#endif
