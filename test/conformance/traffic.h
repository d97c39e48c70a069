// Helpers of the conformance suites: a group of connected endpoints, messages, and loops that retry
// until a frame is delivered. A loop without success for GuardSeconds() fails its test instead of
// hanging.
#ifndef MILLRACE_TEST_CONFORMANCE_TRAFFIC_H_
#define MILLRACE_TEST_CONFORMANCE_TRAFFIC_H_

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "millrace/transport.h"
#include "test/support/support.h"

namespace millrace::test {

inline int GuardSeconds() { return 300 * Patience(); }

using Bytes = std::vector<std::byte>;
using Group = std::vector<std::unique_ptr<Transport>>;  // endpoint i is node i

struct GroupOptions {
  int nodes = 2;
  bool small_queues = false;  // small queues, so that back-pressure sets in soon
  const Clock* clock = &DefaultClock();
  // Endpoints go while others send to them, and have to be found unresponsive soon. In all other
  // tests an endpoint whose thread gets no processor for a while must not be.
  bool peers_leave = false;
};

// How long an endpoint waits for an answer until it considers its peer unresponsive.
inline int64_t SilenceMs(const GroupOptions& group) {
  return group.peers_leave ? 300 * Patience() : 3'600'000;
}

// A transport under test, for the table of a *_test.cc.
struct TransportCase {
  std::string name;  // letters and digits
  std::function<Group(const GroupOptions&)> make;
  // Why it cannot run here (no device, no privilege); "" if it can.
  std::function<std::string()> why_not = [] { return std::string(); };
};

inline void PrintTo(const TransportCase& transport, std::ostream* out) { *out << transport.name; }

class Guard {
 public:
  // Returns false and fails the test once the time limit has passed.
  bool Waiting(const char* what) const {
    if (std::chrono::steady_clock::now() < end_) return true;
    ADD_FAILURE() << "waited for too long: " << what;
    return false;
  }

 private:
  const std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(GuardSeconds());
};

inline Bytes RandomBytes(size_t count, Rng* rng) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng->Below(256));
  return bytes;
}

// A deadline in the near future. Events end waits; the deadline only bounds a hang.
inline int64_t Soon(const Clock& clock) { return clock.NowNs() + 20'000'000; }

// Sends one frame, waiting for room; false (and a test failure) if it is not accepted.
inline bool SendOne(Transport* transport, const OutFrame& frame) {
  for (Guard guard; guard.Waiting("room to send");) {
    const SendResult result = transport->Send({&frame, 1});
    if (result.accepted == 1) return true;
    if (result.status != SendStatus::kBusy) break;
    transport->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
  }
  ADD_FAILURE() << "not accepted";
  return false;
}

// Waits until all accepted frames are complete, so that their memory may be reused.
inline bool Flush(Transport* transport) {
  Guard guard;
  while (transport->Reclaim() < transport->counters().frames_sent()) {
    if (!guard.Waiting("frames to be reclaimed")) return false;
    transport->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
  }
  return true;
}

// Sends `bytes`, the first `header` of them as header, and waits until their memory may be reused.
inline bool SendBytes(Transport* transport, NodeId to, const Bytes& bytes, size_t header = 0) {
  const std::span<const std::byte> all(bytes);
  if (!SendOne(transport, {to, all.first(header), all.subspan(header)})) return false;
  return Flush(transport);
}

// Waits until `sender` has room. Meanwhile `receiver` answers its probes, and `take`, called again
// and again, takes the frames that have arrived there.
template <typename Take>
bool WaitForRoom(Transport* sender, Transport* receiver, Take take) {
  for (Guard guard; guard.Waiting("room at the sender");) {
    if (sender->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend).sendable) return true;
    receiver->Wait(DefaultClock().NowNs(), WaitFor::kReceive);
    take();
  }
  return false;
}

struct Received {
  NodeId from;
  Bytes bytes;
};

// Receives all frames that have arrived.
inline std::vector<Received> Drain(Transport* transport) {
  std::vector<Received> all;
  InFrame frames[16];
  while (const size_t count = transport->Receive(frames)) {
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(frames[i].bytes.data()) % 8, 0u);
      all.push_back({frames[i].from, Bytes(frames[i].bytes.begin(), frames[i].bytes.end())});
    }
    transport->Release();
  }
  return all;
}

// Waits for at least `count` frames.
inline std::vector<Received> Collect(Transport* transport, size_t count) {
  std::vector<Received> all;
  Guard guard;
  while (all.size() < count && guard.Waiting("frames")) {
    for (Received& frame : Drain(transport)) all.push_back(std::move(frame));
    if (all.size() < count) transport->Wait(Soon(DefaultClock()), WaitFor::kReceive);
  }
  return all;
}

// A message of at least 8 bytes that contains its number.
inline Bytes Numbered(uint64_t number, size_t bytes = 8) {
  Bytes message(bytes, static_cast<std::byte>(number * 31 + 7));
  std::memcpy(message.data(), &number, 8);
  return message;
}

inline uint64_t NumberOf(std::span<const std::byte> bytes) {
  uint64_t number = UINT64_MAX;
  if (bytes.size() >= 8) std::memcpy(&number, bytes.data(), 8);
  return number;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_TRAFFIC_H_
