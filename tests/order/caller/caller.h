#ifndef ORDER_CALLER_H
#define ORDER_CALLER_H

#include <cuda.h>

CUresult caller_free(CUdeviceptr address);

#endif
