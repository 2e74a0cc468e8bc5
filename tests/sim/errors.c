#include <stddef.h>

#include "tests/sim/bodies.h"

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
#define SIM_ERROR(code, name, text) {(CUresult)code, #name, text},
#include "tests/sim/errors.def"
#undef SIM_ERROR
};

static CUresult look_up(CUresult code, const char **out, bool text)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == code)
			*out = text ? errors[i].text : errors[i].name;
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_error_name(CUresult code, const char **out)
{
	return look_up(code, out, false);
}

CUresult sim_error_string(CUresult code, const char **out)
{
	return look_up(code, out, true);
}
