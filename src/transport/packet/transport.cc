#include "transport/packet/transport.h"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "millrace/transport_registry.h"
#include "transport/check_range.h"
#include "transport/credited_endpoint.h"
#include "transport/packet/link.h"

namespace millrace::inline transport {
namespace {

constexpr int64_t kMinFrameBytes = 64, kMaxFrameBytes = 65535;
constexpr int64_t kMaxWindow = 1 << 20;
constexpr int64_t kMaxRingBytes = 1 << 30;
// More frames per block save wake-ups, but the window counts whole blocks (WindowFor), so fewer
// frames per block allow a larger window in the same memory.
constexpr size_t kFramesInBlock = 3;
constexpr size_t kMinPacketBytes = 60;  // devices pad shorter packets

void ExpectRanges(const PacketOptions& options) {
  ExpectInteger("packet", "group", options.group, 0, UINT16_MAX);
  ExpectInteger("packet", "window_frames", options.window_frames, 0, kMaxWindow);
  ExpectInteger("packet", "ring_blocks", options.ring_blocks, 2, 65536);
  ExpectInteger("packet", "block_bytes", options.block_bytes, 0, kMaxRingBytes);
  ExpectInteger("packet", "send_buffer_bytes", options.send_buffer_bytes, 4096, 1 << 30);
  ExpectInteger("packet", "silence_ms", options.silence_ms, 1, 3'600'000);
  if (options.max_frame_bytes != 0) {
    ExpectInteger("packet", "max_frame_bytes", options.max_frame_bytes, kMinFrameBytes,
                  kMaxFrameBytes);
  }
}

// Checks and parses all that does not depend on the interface.
std::map<NodeId, MacAddress> ParseAddresses(const PacketOptions& options) {
  std::map<NodeId, MacAddress> addresses;
  for (const auto& [node, text] : options.peers) {
    const std::string field = StrCat("transport packet: peers: ", node, "=", text, ": ");
    const auto address = ParseMacAddress(text);
    if (!address || !address->IsUnicast()) {
      throw Error(field, "expected the Ethernet address of a device, xx:xx:xx:xx:xx:xx");
    }
    if (node == options.node || node == kAllNodes) {
      throw Error(field, "expected the id of another node");
    }
    for (const auto& [other, others] : addresses) {
      if (others == *address) throw Error(field, "node ", other, " has this address already");
    }
    addresses.emplace(node, *address);
  }
  if (addresses.empty()) throw Error("transport packet: peers: expected one at least");
  return addresses;
}

size_t FrameBytesFor(const PacketInterface& interface, int64_t wanted) {
  constexpr size_t kMinMtu = kPacketPrefixBytes + kMinFrameBytes;
  if (interface.mtu < kMinMtu) {
    throw Error("transport packet: interface=", interface.name, ": its MTU is ", interface.mtu,
                ": expected ", kMinMtu, " at least");
  }
  const size_t fits = std::min<size_t>(interface.mtu - kPacketPrefixBytes, kMaxFrameBytes);
  if (static_cast<size_t>(wanted) > fits) {
    throw Error("transport packet: max_frame_bytes=", wanted, ": interface ", interface.name,
                " has room for ", fits, " (MTU ", interface.mtu, "); expected that at most");
  }
  return wanted ? static_cast<size_t>(wanted) : fits;
}

size_t BlockBytesFor(size_t frame_bytes, int64_t wanted) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t frame = PacketRing::BytesInBlock(kPacketHeadBytes + frame_bytes);
  if (wanted == 0) {
    return std::max(page, std::bit_ceil(PacketRing::kBlockHeadBytes + kFramesInBlock * frame));
  }
  const size_t bytes = static_cast<size_t>(wanted);
  if (bytes % page != 0 || bytes < PacketRing::kBlockHeadBytes + frame) {
    throw Error("transport packet: block_bytes=", wanted, ": expected a multiple of ", page,
                ", and ", PacketRing::kBlockHeadBytes + frame, " at least (one frame)");
  }
  return bytes;
}

// A frame that arrives alone takes a whole block, so the ring is certain to hold as many frames
// as it has blocks. One quarter is reserved for probes.
uint32_t WindowFor(size_t blocks, size_t peers) {
  return static_cast<uint32_t>(std::clamp<size_t>(blocks / 4 * 3 / peers, 1, 1024));
}

// Upper bound on frames in the ring if peers respect their windows. The factor 2 allows for peers
// that have restarted.
size_t ReceiveQueueFor(const PacketPlan& plan, uint32_t window) {
  const size_t in_block = plan.block_bytes / PacketRing::BytesInBlock(kMinPacketBytes);
  const size_t sent = 2 * plan.peers.size() * std::max(window, SendWindow::kFirstWindow);
  return std::min(plan.ring_blocks * in_block, sent);
}

}  // namespace

std::unique_ptr<Transport> MakePacket(const TransportConfig& config) {
  PacketOptions options;
  constexpr int64_t kMax = INT64_MAX;  // ConnectPacket checks the bounds
  options.node = config.node;
  options.clock = config.clock;
  options.interface = config.Text("interface");
  options.peers = config.Peers("xx:xx:xx:xx:xx:xx");
  options.group = config.Int("group", 0, 0, kMax);
  options.max_frame_bytes = config.Int("max_frame_bytes", 0, kMinFrameBytes, kMaxFrameBytes);
  options.window_frames = config.Int("window_frames", 0, 1, kMaxWindow);
  options.block_bytes = config.Int("block_bytes", 0, 1, kMaxRingBytes);
  options.ring_blocks = config.Int("ring_blocks", options.ring_blocks, 0, kMax);
  options.send_buffer_bytes = config.Int("send_buffer_bytes", options.send_buffer_bytes, 0, kMax);
  options.silence_ms = config.Int("silence_ms", options.silence_ms, 0, kMax);
  return ConnectPacket(options);
}

std::unique_ptr<Transport> ConnectPacket(const PacketOptions& options) {
  ExpectRanges(options);
  PacketPlan plan;
  plan.node = options.node;
  plan.group = static_cast<uint16_t>(options.group);
  plan.peers = ParseAddresses(options);
  plan.interface = FindPacketInterface(options.interface);
  for (const auto& [node, address] : plan.peers) {
    if (address != plan.interface.address) continue;
    throw Error("transport packet: peers: ", node, "=", address.Text(),
                ": this is the address of this node's interface, ", plan.interface.name);
  }
  CreditedPlan ends;
  ends.info.name = "packet";
  ends.info.node = options.node;
  for (const auto& [node, address] : plan.peers) ends.info.peers.push_back(node);
  ends.info.max_frame_bytes = FrameBytesFor(plan.interface, options.max_frame_bytes);
  ends.info.overhead_bytes = kPacketHeadBytes;
  ends.info.copies = true;
  plan.block_bytes = BlockBytesFor(ends.info.max_frame_bytes, options.block_bytes);
  plan.ring_blocks = static_cast<size_t>(options.ring_blocks);
  plan.send_buffer_bytes = options.send_buffer_bytes;
  if (plan.block_bytes * plan.ring_blocks > kMaxRingBytes) {
    throw Error("transport packet: ring_blocks=", plan.ring_blocks,
                " of block_bytes=", plan.block_bytes, ": expected ", kMaxRingBytes,
                " bytes at most");
  }
  ends.window_frames = static_cast<uint32_t>(options.window_frames);
  if (ends.window_frames == 0) {
    ends.window_frames = WindowFor(plan.ring_blocks, plan.peers.size());
  }
  ends.receive_queue_frames = ReceiveQueueFor(plan, ends.window_frames);
  ends.silence_ns = options.silence_ms * 1'000'000;
  ends.clock = options.clock;
  return std::make_unique<CreditedEndpoint>(std::make_unique<PacketLink>(plan), ends);
}

}  // namespace millrace::inline transport
