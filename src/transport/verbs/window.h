// How many receive buffers the verbs transport takes by default, and how many frames to and
// from each peer they hold. Also for builds without verbs: what simulates its windows.
#ifndef MILLRACE_TRANSPORT_VERBS_WINDOW_H_
#define MILLRACE_TRANSPORT_VERBS_WINDOW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace millrace {

inline constexpr size_t kMostVerbsQueue = 32768;

// Of `peers` >= 1; a device may have fewer.
constexpr size_t UsualVerbsBuffers(size_t peers) {
  constexpr size_t kBuffersPerPeer = 128, kLeastBuffers = 1024;
  return std::clamp(kBuffersPerPeer * peers, kLeastBuffers, kMostVerbsQueue);
}

// Frames of both streams of every peer that the buffers surely hold; a quarter is for
// credits and probes.
constexpr uint32_t VerbsWindowFor(size_t buffers, size_t peers) {
  return static_cast<uint32_t>(std::clamp<size_t>(buffers / 4 * 3 / (2 * peers), 1, 1024));
}

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_VERBS_WINDOW_H_
