// Zeroed memory for floats, on huge pages where it is large.
#ifndef MILLRACE_BENCH_ONEDNN_LOOP_HUGE_BUFFER_H_
#define MILLRACE_BENCH_ONEDNN_LOOP_HUGE_BUFFER_H_

#include <cstddef>
#include <memory>

namespace onednn_loop {

struct Unmap {
  size_t bytes;
  void operator()(float* start) const;
};
using HugeBuffer = std::unique_ptr<float[], Unmap>;

// At least `bytes` bytes, aligned to a page, or to 2 MiB from 1 MiB on. Throws
// std::bad_alloc.
HugeBuffer AllocateHuge(size_t bytes);

}  // namespace onednn_loop

#endif  // MILLRACE_BENCH_ONEDNN_LOOP_HUGE_BUFFER_H_
