#include "test/sim/fabric/port.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "exchange/kernels/codec.h"
#include "exchange/protocol/frame.h"
#include "transport/verbs/window.h"

namespace millrace::sim {
namespace {

// Offsets in a frame's head (docs/wire.md).
constexpr size_t kTypeAt = 5, kCodecAt = 6;
// Peers never become unresponsive here.
constexpr int64_t kSilenceNs = INT64_MAX;

}  // namespace

int64_t NominalPayload(std::span<const std::byte> head, size_t payload_bytes,
                       int64_t chunk_floats) {
  const auto type = static_cast<FrameType>(head[kTypeAt]);
  if (type == FrameType::kPosition || type == FrameType::kTakeoverState) return 4 * chunk_floats;
  if (type != FrameType::kDiff) return static_cast<int64_t>(payload_bytes);
  const auto codec = static_cast<Codec>(head[kCodecAt]);
  if (codec >= Codec::kSparse) {
    throw Error("fabric: a sparse diff has no length that its chunk's would follow from");
  }
  return MinPayloadBytes(codec, chunk_floats);
}

FabricPort::FabricPort(const Shape& shape, const FabricPortOptions& options)
    : shape_(shape),
      options_(options),
      fabric_(shape.nodes, options.rates, options.latency_ns),
      ends_of_(shape.nodes) {
  if (options.multicast && !options.wire.multicasts) {
    throw Error("fabric: ", options.wire.name, " does not multicast");
  }
  for (size_t segment = 0; segment < shape.segments.size(); ++segment) {
    const std::vector<uint16_t>& nodes = shape.segments[segment];
    groups_.push_back(fabric_.AddGroup(nodes));
    const auto peers = static_cast<uint32_t>(nodes.size() - 1);
    const uint32_t usual = VerbsWindowFor(DefaultVerbsBuffers(peers), peers);
    const uint32_t window =
        options.under_way == 0 ? usual : std::clamp(options.under_way / peers, 1u, usual);
    const Stream stream{SendWindow(window, kSilenceNs), ReceiveWindow(window)};
    for (size_t place = 0; place < nodes.size(); ++place) {
      ends_of_[nodes[place]].push_back(ends_.size());
      ends_.push_back({segment, nodes[place], place});
      streams_.emplace_back(2 * nodes.size(), stream);
      for (size_t peer = 0; peer < nodes.size(); ++peer) {
        // The sessions exist from the start; the simulation omits the first probes.
        for (const bool to_all : {false, true}) {
          streams_.back()[2 * peer + (to_all ? 1 : 0)].receive.Probed(SessionOf(peer, to_all), 0,
                                                                      true);
        }
      }
    }
  }
}

bool FabricPort::HasRoom(size_t end, bool to_all) {
  const size_t members = MembersOf(end);
  for (size_t peer = 0; peer < members; ++peer) {
    if (peer != ends_[end].place && At(end, peer, to_all).send.Room() == 0) return false;
  }
  return true;
}

uint32_t FabricPort::Load(size_t end, const PostedFrame& frame, bool to_all) {
  uint32_t index;
  if (free_.empty()) {
    index = static_cast<uint32_t>(cargo_.size());
    cargo_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Cargo& cargo = cargo_[index];
  cargo.bytes = static_cast<uint32_t>(frame.head.size() + frame.payload.size());
  cargo.words.resize((cargo.bytes + 7) / 8);
  auto* out = reinterpret_cast<std::byte*>(cargo.words.data());
  std::copy(frame.payload.begin(), frame.payload.end(),
            std::copy(frame.head.begin(), frame.head.end(), out));
  cargo.segment = static_cast<uint32_t>(ends_[end].segment);
  cargo.from = static_cast<uint16_t>(ends_[end].place);
  cargo.to_all = to_all;
  cargo.credit = false;
  return index;
}

void FabricPort::Unload(uint32_t cargo) {
  if (--cargo_[cargo].left == 0) free_.push_back(cargo);
}

void FabricPort::SendTo(size_t end, size_t peer, int64_t bytes, uint32_t cargo, int64_t now) {
  cargo_[cargo].left = 1;
  fabric_.Send(ends_[end].node, NodeAt(end, peer), bytes, cargo, now);
}

bool FabricPort::Send(size_t end, const PostedFrame& frame, int64_t now) {
  const int64_t payload = NominalPayload(frame.head, frame.payload.size(), options_.chunk_floats);
  const int64_t bytes = options_.wire.BytesOf(static_cast<int64_t>(frame.head.size()) + payload);
  const size_t self = ends_[end].place, members = MembersOf(end);
  if (frame.destination != kAllNodes) {
    const auto& nodes = shape_.segments[ends_[end].segment];
    const size_t peer = static_cast<size_t>(
        std::lower_bound(nodes.begin(), nodes.end(), frame.destination) - nodes.begin());
    SendWindow& window = At(end, peer, false).send;
    if (window.Room() == 0) return false;
    const uint32_t cargo = Load(end, frame, false);
    cargo_[cargo].sequence = window.Take();
    SendTo(end, peer, bytes, cargo, now);
    return true;
  }
  if (!HasRoom(end, options_.multicast)) return false;
  if (static_cast<FrameType>(frame.head[kTypeAt]) == FrameType::kPosition) {
    position_bytes_ += bytes * static_cast<int64_t>(options_.multicast ? 1 : members - 1);
  }
  if (options_.multicast) {
    const uint32_t cargo = Load(end, frame, true);
    for (size_t peer = 0; peer < members; ++peer) {
      cargo_[cargo].sequence = At(end, peer, true).send.Take();
    }
    cargo_[cargo].left = static_cast<uint32_t>(members - 1);
    fabric_.Multicast(ends_[end].node, groups_[ends_[end].segment], bytes, cargo, now);
    return true;
  }
  for (size_t peer = 0; peer < members; ++peer) {
    if (peer == self) continue;
    const uint32_t cargo = Load(end, frame, false);
    cargo_[cargo].sequence = At(end, peer, false).send.Take();
    SendTo(end, peer, bytes, cargo, now);
  }
  return true;
}

bool FabricPort::Take(uint16_t node, int64_t now, Arrived* arrived) {
  for (uint32_t index; fabric_.Take(node, now, &index);) {
    Cargo& cargo = cargo_[index];
    const auto& ends = ends_of_[node];
    const size_t end = *std::find_if(ends.begin(), ends.end(),
                                     [&](size_t e) { return ends_[e].segment == cargo.segment; });
    Stream& stream = At(end, cargo.from, cargo.to_all);
    if (cargo.credit) {
      stream.send.Credit(cargo.sequence, cargo.window);
      Unload(index);
      continue;
    }
    stream.receive.Arrived(TagOf(SessionOf(cargo.from, cargo.to_all)), cargo.sequence);
    *arrived = {end, index, {reinterpret_cast<const std::byte*>(cargo.words.data()), cargo.bytes}};
    return true;
  }
  return false;
}

void FabricPort::Release(const Arrived& arrived, int64_t now) {
  const size_t peer = cargo_[arrived.cargo].from;
  const bool to_all = cargo_[arrived.cargo].to_all;
  Unload(arrived.cargo);
  ReceiveWindow& window = At(arrived.end, peer, to_all).receive;
  window.Released();
  if (!window.CreditDue()) return;
  window.Announced();
  const uint32_t index = Load(arrived.end, {}, to_all);
  cargo_[index].credit = true;
  cargo_[index].sequence = window.freed();
  cargo_[index].window = window.window();
  SendTo(arrived.end, peer, options_.wire.CreditBytes(), index, now);
}

}  // namespace millrace::sim
