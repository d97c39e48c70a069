// The transport inside one process: a hub of nodes, each with a bounded queue
// that every other node copies frames into.
//
// A frame is copied once, into a slot of its receiver's queue (a multicast once
// for each receiver), so it is done with when Send returns. A full queue refuses
// the frame (kBusy); frames to others go through, also from the same batch if the
// caller goes on behind the refused one. A multicast is accepted by all receivers
// or by none. Frames to a node that nobody has connected, or whose endpoint has
// gone, are accepted and dropped (kUnreachable), as a network would.
#ifndef MILLRACE_TRANSPORT_LOOPBACK_TRANSPORT_H_
#define MILLRACE_TRANSPORT_LOOPBACK_TRANSPORT_H_

#include <cstddef>
#include <memory>
#include <string>

#include "transport/transport.h"

namespace millrace {

struct LoopbackOptions {
  int64_t nodes = 2;               // ids 0 .. nodes - 1; 2 to 1024
  int64_t queue_frames = 256;      // of each node; 1 to 2^20
  int64_t max_frame_bytes = 9216;  // a jumbo frame's; 64 to 2^20
  const Clock* clock = &DefaultClock();

  bool operator==(const LoopbackOptions&) const = default;
};

// Thread-safe; copies are the same hub. Endpoints keep what they need of it, so they may outlive
// it.
class LoopbackHub {
 public:
  // Throws Error if an option is out of its range.
  explicit LoopbackHub(const LoopbackOptions& options);

  // The endpoint of one node. Throws Error if there is no such node, or if it is
  // connected already; a node may connect again once its endpoint is gone.
  std::unique_ptr<Transport> Connect(int node);

  // The hub of this process with that name, made if there is none; it goes with
  // the last of its endpoints. Throws Error if it was made with other options.
  // Registered as "loopback": options hub (its name; "default"), nodes,
  // queue_frames, max_frame_bytes.
  static LoopbackHub Named(const std::string& name, const LoopbackOptions& options);

  class State;  // what endpoints share

 private:
  explicit LoopbackHub(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_LOOPBACK_TRANSPORT_H_
