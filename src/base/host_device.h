// MILLRACE_HOST_DEVICE marks a small function for both CPU and GPU. nvcc compiles it for host and
// device. The host compiler always inlines it, so that it uses the instruction set of the enclosing
// loop (base/simd.h).
#ifndef MILLRACE_BASE_HOST_DEVICE_H_
#define MILLRACE_BASE_HOST_DEVICE_H_

#ifdef __CUDACC__
#define MILLRACE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define MILLRACE_HOST_DEVICE inline __attribute__((always_inline))
#endif

#endif  // MILLRACE_BASE_HOST_DEVICE_H_
