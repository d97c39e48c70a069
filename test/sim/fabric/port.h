// Transport of simulated segments over a fabric: real windows (transport/stream_window.h),
// credits sent as packets, and frames to all peers by multicast or as one copy per peer.
//
// A simulated chunk has few weights in memory. On the fabric its frames are as long as those of
// a chunk of `chunk_floats`.
#ifndef MILLRACE_TEST_SIM_FABRIC_PORT_H_
#define MILLRACE_TEST_SIM_FABRIC_PORT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exchange/protocol/outbox.h"
#include "test/sim/fabric/fabric.h"
#include "test/sim/fabric/wire.h"
#include "test/sim/shape.h"
#include "transport/stream_window.h"

namespace millrace::sim {

struct FabricPortOptions {
  Wire wire;
  // Sends frames to all peers once instead of one copy per peer. Requires Wire::multicasts.
  bool multicast = false;
  int64_t chunk_floats = 0;  // of a chunk on the wire
  PortRates rates;
  int64_t latency_ns = 2000;
  // Maximum frames in flight to a node in one segment, divided equally among its windows. No
  // window exceeds the default of the verbs transport; 0 selects that default.
  uint32_t under_way = 0;
};

// Length on the wire, in bytes, of a frame's payload if chunks have `chunk_floats`. `head` is
// the frame's head as posted. Throws Error for sparse diffs, whose length depends on their
// content.
int64_t NominalPayload(std::span<const std::byte> head, size_t payload_bytes, int64_t chunk_floats);

// Not thread-safe. Ends are numbered segment by segment, in node order.
class FabricPort {
 public:
  FabricPort(const Shape& shape, const FabricPortOptions& options);

  struct End {
    size_t segment;
    uint16_t node;
    size_t place;  // index within the segment
  };
  const std::vector<End>& ends() const { return ends_; }
  const std::vector<size_t>& ends_of(uint16_t node) const { return ends_of_[node]; }
  Fabric& fabric() { return fabric_; }
  const Fabric& fabric() const { return fabric_; }

  // Bytes of all positions at the ports of their senders.
  int64_t position_bytes() const { return position_bytes_; }

  // Sends a copy of the frame; the caller may reuse its bytes. Returns false if a window is
  // full.
  bool Send(size_t end, const PostedFrame& frame, int64_t now);

  // An arrived frame. Its bytes stay valid until Release.
  struct Arrived {
    size_t end;
    uint32_t cargo;
    std::span<const std::byte> bytes;
  };
  // Takes the next frame at a node by `now`, and processes credits before it. Returns false if
  // there is none.
  bool Take(uint16_t node, int64_t now, Arrived* arrived);
  // Frees the frame and sends a credit if one is due.
  void Release(const Arrived& arrived, int64_t now);

 private:
  struct Stream {
    SendWindow send;
    ReceiveWindow receive;
  };
  struct Cargo {
    std::vector<uint64_t> words;
    uint32_t bytes = 0;
    uint32_t left = 0;  // arrivals still outstanding
    uint32_t segment = 0;
    uint16_t from = 0;  // sender's index within the segment
    bool to_all = false;
    bool credit = false;
    uint32_t sequence = 0;  // of the frame; in a credit: number of frames freed
    uint32_t window = 0;    // in a credit: the receiver's window
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
  const FabricPortOptions options_;
  Fabric fabric_;
  std::vector<End> ends_;
  std::vector<std::vector<size_t>> ends_of_;  // by node
  std::vector<int> groups_;                   // by segment
  std::vector<std::vector<Stream>> streams_;  // by end: two per peer, by place
  std::vector<Cargo> cargo_;
  std::vector<uint32_t> free_;
  int64_t position_bytes_ = 0;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_FABRIC_PORT_H_
