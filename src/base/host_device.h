// Marks a small function that both processors compile: by nvcc for the host and
// the GPU; by the host's compiler always inline, so that it takes on the
// instruction set of the loop around it (base/simd.h).
#ifndef MILLRACE_BASE_HOST_DEVICE_H_
#define MILLRACE_BASE_HOST_DEVICE_H_

#ifdef __CUDACC__
#define MILLRACE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define MILLRACE_HOST_DEVICE inline __attribute__((always_inline))
#endif

#endif  // MILLRACE_BASE_HOST_DEVICE_H_
