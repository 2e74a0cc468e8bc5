/* The word of special.h. */
#include "shim/special.h"

unsigned gp_special_bits = GP_SPECIAL_PHASE | GP_SPECIAL_UNWATCHED;
