// What carries the frames of simulated segments over a fabric: the ends of a transport
// with its real windows (transport/stream_window.h), credits that travel as packets, and
// multicast or a copy for each peer.
//
// The weights of a simulated chunk are few; on the fabric its frames are as long as those of
// a chunk of `chunk_floats`.
#ifndef MILLRACE_TEST_FABRIC_SIM_PORT_H_
#define MILLRACE_TEST_FABRIC_SIM_PORT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exchange/protocol/outbox.h"
#include "test/fabric/fabric.h"
#include "test/fabric/shape.h"
#include "test/fabric/wire.h"
#include "transport/stream_window.h"

namespace millrace::fabric {

struct SimPortOptions {
  Wire wire;
  // Frames to all leave once; else as a copy to each. Only where the wire can.
  bool multicast = false;
  int64_t chunk_floats = 0;  // of a chunk on the wire
  PortRates rates;
  int64_t latency_ns = 2000;
  // Frames of others' streams that may be under way to a node in a segment, shared by its
  // windows; 0: as many as verbs has by default, which no window exceeds.
  uint32_t under_way = 0;
};

// The bytes that a payload of this frame (its head as it was posted) has on the wire where
// chunks have `chunk_floats`. Throws Error for sparse diffs, whose size is of what they
// hold.
int64_t NominalPayload(std::span<const std::byte> head, size_t payload_bytes, int64_t chunk_floats);

// Not thread-safe. Ends are numbered segment by segment, in the order of the nodes.
class SimPort {
 public:
  SimPort(const Shape& shape, const SimPortOptions& options);

  struct End {
    size_t segment;
    uint16_t node;
    size_t place;  // among the nodes of the segment
  };
  const std::vector<End>& ends() const { return ends_; }
  const std::vector<size_t>& ends_of(uint16_t node) const { return ends_of_[node]; }
  Fabric& fabric() { return fabric_; }
  const Fabric& fabric() const { return fabric_; }

  // What positions have taken on the ports of those that sent them, bytes.
  int64_t position_bytes() const { return position_bytes_; }

  // Takes a frame, whose bytes are not needed any more then. False if a window is full.
  bool Send(size_t end, const PostedFrame& frame, int64_t now);

  // A frame that has arrived; its bytes stay until Release.
  struct Arrived {
    size_t end;
    uint32_t cargo;
    std::span<const std::byte> bytes;
  };
  // The next one at a node by `now`; credits are taken on the way. False: none.
  bool Take(uint16_t node, int64_t now, Arrived* arrived);
  // Done with; sends a credit if one is due.
  void Release(const Arrived& arrived, int64_t now);

 private:
  struct Stream {
    SendWindow send;
    ReceiveWindow receive;
  };
  struct Cargo {
    std::vector<uint64_t> words;
    uint32_t bytes = 0;
    uint32_t left = 0;  // arrivals still to come
    uint32_t segment = 0;
    uint16_t from = 0;  // place in the segment
    bool to_all = false;
    bool credit = false;
    uint32_t sequence = 0;  // of the frame, or up to which the credit goes
    uint32_t window = 0;    // credit
  };

  Stream& At(size_t end, size_t peer, bool to_all) {
    return streams_[end][2 * peer + (to_all ? 1 : 0)];
  }
  bool HasRoom(size_t end, bool to_all);
  size_t MembersOf(size_t end) const { return shape_.segments[ends_[end].segment].size(); }
  uint16_t NodeAt(size_t end, size_t place) const {
    return shape_.segments[ends_[end].segment][place];
  }
  uint32_t Load(size_t end, const PostedFrame& frame, bool to_all);
  void Unload(uint32_t cargo);
  void SendTo(size_t end, size_t peer, int64_t bytes, uint32_t cargo, int64_t now);
  static uint64_t SessionOf(size_t place, bool to_all) { return 2 * place + (to_all ? 1 : 0); }

  const Shape shape_;
  const SimPortOptions options_;
  Fabric fabric_;
  std::vector<End> ends_;
  std::vector<std::vector<size_t>> ends_of_;  // by node
  std::vector<int> groups_;                   // by segment
  std::vector<std::vector<Stream>> streams_;  // by end: two of each peer, by place
  std::vector<Cargo> cargo_;
  std::vector<uint32_t> free_;
  int64_t position_bytes_ = 0;
};

}  // namespace millrace::fabric

#endif  // MILLRACE_TEST_FABRIC_SIM_PORT_H_
