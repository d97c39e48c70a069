// Default number of receive buffers of the verbs transport, and the window that they allow.
// Separate from the transport so that builds without verbs can simulate its windows.
#ifndef MILLRACE_TRANSPORT_VERBS_WINDOW_H_
#define MILLRACE_TRANSPORT_VERBS_WINDOW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace millrace::inline transport {

inline constexpr size_t kMaxVerbsQueue = 32768;

// Requires peers >= 1. A device may support fewer.
constexpr size_t DefaultVerbsBuffers(size_t peers) {
  constexpr size_t kBuffersPerPeer = 128, kMinBuffers = 1024;
  return std::clamp(kBuffersPerPeer * peers, kMinBuffers, kMaxVerbsQueue);
}

// Window per peer and stream that is certain to fit the buffers; one quarter is reserved for
// credits and probes.
constexpr uint32_t VerbsWindowFor(size_t buffers, size_t peers) {
  return static_cast<uint32_t>(std::clamp<size_t>(buffers / 4 * 3 / (2 * peers), 1, 1024));
}

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_WINDOW_H_
