#ifndef GP_CONF_VERSION_H
#define GP_CONF_VERSION_H

#define GP_VERSION "0.1.0"

#endif
