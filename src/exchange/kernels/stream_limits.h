// Sizes of a stream executor (stream_executor.h).
#ifndef MILLRACE_EXCHANGE_KERNELS_STREAM_LIMITS_H_
#define MILLRACE_EXCHANGE_KERNELS_STREAM_LIMITS_H_

#include <cstdint>

namespace millrace::inline exchange {

struct StreamLimits {
  uint32_t launch_ops = 256;       // maximum operations per kernel, at least 1
  uint32_t launches = 4;           // maximum kernels in flight, at least 1
  uint32_t stage_bytes = 1 << 20;  // staging bytes per kernel; raised to fit one operation
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_STREAM_LIMITS_H_
