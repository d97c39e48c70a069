// The transport within one process: a hub of nodes, each with a bounded queue that the other
// nodes copy frames into.
//
// A frame is copied once, into a slot of its receiver's queue (a multicast once per receiver), so
// it is complete when Send returns. A full queue refuses the frame (kBusy). Frames to other nodes
// still pass, also those of the same batch if the caller continues behind the refused frame. A
// multicast is accepted by all receivers or by none. Frames to a node without a connected
// endpoint are accepted and dropped (kUnreachable), as a network would do.
#ifndef MILLRACE_TRANSPORT_LOOPBACK_TRANSPORT_H_
#define MILLRACE_TRANSPORT_LOOPBACK_TRANSPORT_H_

#include <cstddef>
#include <memory>
#include <string>

#include "millrace/transport.h"

namespace millrace {
struct TransportConfig;
}
namespace millrace::inline transport {

struct LoopbackOptions {
  int64_t nodes = 2;               // ids 0 .. nodes - 1; 2 to 1024
  int64_t queue_frames = 256;      // per node; 1 to 2^20
  int64_t max_frame_bytes = 9216;  // default: a jumbo frame; 64 to 2^20
  const Clock* clock = &DefaultClock();

  bool operator==(const LoopbackOptions&) const = default;
};

// Thread-safe. Copies refer to the same hub. Endpoints share ownership of the hub's state, so
// they may outlive this object.
class LoopbackHub {
 public:
  // Throws Error if an option is out of range.
  explicit LoopbackHub(const LoopbackOptions& options);

  // Creates the endpoint of `node`. Throws Error if the id is out of range or the node is already
  // connected. A node may connect again once its endpoint is destroyed.
  std::unique_ptr<Transport> Connect(int node);

  // Returns the hub of this process with that name and creates it if necessary. It exists as long
  // as a LoopbackHub or an endpoint refers to it. Throws Error if it exists with other options.
  static LoopbackHub Named(const std::string& name, const LoopbackOptions& options);

  class State;  // shared by the endpoints

 private:
  explicit LoopbackHub(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

// Creates the endpoint of config.node on the hub of this process that option `hub` names (default
// "default"). Throws Error with one line that names the option.
std::unique_ptr<Transport> MakeLoopback(const TransportConfig& config);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_LOOPBACK_TRANSPORT_H_
