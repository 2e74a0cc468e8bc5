/*
 * Sets, as they are asked for. None waits, as measured for device memory.
 */
#include "tests/sim/bodies.h"
#include "tests/sim/work.h"

static CUresult set_box(struct sim_box box, unsigned value, unsigned bytes,
			CUstream stream, bool sync)
{
	struct sim_work work = {
		.kind = SIM_W_SET, .dst = box, .value = value, .bytes = bytes};

	if (box.va % bytes || box.pitch % bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_transfer(stream, &work, sync);
}

static CUresult set_line(CUdeviceptr dst, unsigned value, unsigned bytes,
			 size_t n, CUstream stream, bool sync)
{
	if (n > SIZE_MAX / bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return set_box(sim_box_line(dst, n * bytes), value, bytes, stream,
		       sync);
}

static CUresult set_rows(CUdeviceptr dst, size_t pitch, unsigned value,
			 unsigned bytes, size_t width, size_t height,
			 CUstream stream, bool sync)
{
	struct sim_box box = {dst,           pitch,  pitch * height,
			      width * bytes, height, 1};

	if (width > SIZE_MAX / bytes || (height > 1 && pitch < width * bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return set_box(box, value, bytes, stream, sync);
}

CUresult sim_set_d8(CUdeviceptr dst, unsigned char value, size_t n)
{
	return set_line(dst, value, 1, n, NULL, true);
}

CUresult sim_set_d8_async(CUdeviceptr dst, unsigned char value, size_t n,
			  CUstream s)
{
	return set_line(dst, value, 1, n, s, false);
}

CUresult sim_set_2d_d8(CUdeviceptr dst, size_t pitch, unsigned char value,
		       size_t width, size_t height)
{
	return set_rows(dst, pitch, value, 1, width, height, NULL, true);
}

CUresult sim_set_2d_d8_async(CUdeviceptr dst, size_t pitch, unsigned char value,
			     size_t width, size_t height, CUstream s)
{
	return set_rows(dst, pitch, value, 1, width, height, s, false);
}

CUresult sim_set_d16(CUdeviceptr dst, unsigned short value, size_t n)
{
	return set_line(dst, value, 2, n, NULL, true);
}

CUresult sim_set_d16_async(CUdeviceptr dst, unsigned short value, size_t n,
			   CUstream s)
{
	return set_line(dst, value, 2, n, s, false);
}

CUresult sim_set_2d_d16(CUdeviceptr dst, size_t pitch, unsigned short value,
			size_t width, size_t height)
{
	return set_rows(dst, pitch, value, 2, width, height, NULL, true);
}

CUresult sim_set_2d_d16_async(CUdeviceptr dst, size_t pitch,
			      unsigned short value, size_t width, size_t height,
			      CUstream s)
{
	return set_rows(dst, pitch, value, 2, width, height, s, false);
}

CUresult sim_set_d32(CUdeviceptr dst, unsigned value, size_t n)
{
	return set_line(dst, value, 4, n, NULL, true);
}

CUresult sim_set_d32_async(CUdeviceptr dst, unsigned value, size_t n,
			   CUstream s)
{
	return set_line(dst, value, 4, n, s, false);
}

CUresult sim_set_2d_d32(CUdeviceptr dst, size_t pitch, unsigned value,
			size_t width, size_t height)
{
	return set_rows(dst, pitch, value, 4, width, height, NULL, true);
}

CUresult sim_set_2d_d32_async(CUdeviceptr dst, size_t pitch, unsigned value,
			      size_t width, size_t height, CUstream s)
{
	return set_rows(dst, pitch, value, 4, width, height, s, false);
}
