// How many bytes a second get from one network namespace to another: what the
// benchmarks of network transports share.
#ifndef MILLRACE_BENCH_NETWORK_RATE_H_
#define MILLRACE_BENCH_NETWORK_RATE_H_

#include <gflags/gflags.h>

#include <atomic>
#include <cstdint>
#include <functional>

#include "millrace/transport.h"

DECLARE_double(seconds);
DECLARE_int32(repeats);
DECLARE_int32(window_frames);

namespace bench_network {

// MB/s (10^6) of what `received` counts while `send` and `receive` run on threads of
// their own, until `stop` is set and `wake` was called.
double Rate(std::atomic<uint64_t>* received, std::atomic<bool>* stop,
            const std::function<void()>& send, const std::function<void()>& receive,
            const std::function<void()>& wake);

// Of the longest frames from `sender` to `receiver`, which is node 1.
double TransportRate(millrace::Transport* sender, millrace::Transport* receiver);

}  // namespace bench_network

#endif  // MILLRACE_BENCH_NETWORK_RATE_H_
