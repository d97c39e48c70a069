#include "transport/udp.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/parse_number.h"
#include "transport/expect_range.h"
#include "transport/registry.h"
#include "transport/udp_endpoint.h"
#include "transport/udp_wire.h"

namespace millrace {
namespace {

constexpr int64_t kLeastFrameBytes = 64;
constexpr int64_t kMostWindow = 1 << 20;
constexpr size_t kEthernetHeaderBytes = 14;

// The longest frame in a datagram of `payload` bytes, padded as it travels.
size_t FrameBytesIn(size_t payload) { return payload / kUdpAlign * kUdpAlign - kUdpPrefixBytes; }

// What the kernel may count against the receive buffer for a datagram: the memory it
// lies in, which is a page, a power of two or (above 16 KiB) whole pages, and the
// descriptions around it.
size_t KernelCost(size_t datagram_bytes) {
  constexpr size_t kDescriptions = 1024, kPage = 4096, kLargestBlock = 16384;
  const size_t bytes = std::max(datagram_bytes + 512, kPage);
  if (bytes > kLargestBlock) return bytes + kPage + kDescriptions;
  return std::bit_ceil(bytes) + kDescriptions;
}

// Frames of every peer that the receive buffer surely holds at once. The kernel
// takes what was read off the account only in steps of a quarter of the buffer, and
// credits and probes need room too.
uint32_t WindowFor(size_t buffer_bytes, size_t datagram_bytes, size_t peers) {
  const size_t frames = buffer_bytes / 8 * 5 / KernelCost(datagram_bytes) / peers;
  return static_cast<uint32_t>(std::clamp<size_t>(frames, 1, 1024));
}

std::map<NodeId, UdpAddress> ResolvePeers(const UdpSocket& socket, const UdpOptions& options) {
  std::map<NodeId, UdpAddress> addresses;
  std::map<std::string, NodeId> seen = {{socket.local().Text(), options.node}};
  for (const auto& [node, text] : options.peers) {
    const std::string field = Cat("transport udp: peers: ", node);
    const UdpAddress address = ResolveUdpAddress(field, text);
    if (node == options.node || node == kAllNodes) {
      throw Error(field, "=", text, ": expected the id of another node");
    }
    if (address.is_v6() != socket.local().is_v6()) {
      throw Error(field, "=", text, ": expected an address of the family of this node's, ",
                  socket.local().Text());
    }
    if (address.port() == 0) throw Error(field, "=", text, ": expected a port from 1 to 65535");
    const auto [other, is_new] = seen.emplace(address.Text(), node);
    if (!is_new) {
      throw Error(field, "=", text, ": node ", other->second, " has this address already");
    }
    addresses.emplace(node, address);
  }
  if (addresses.empty()) throw Error("transport udp: peers: expected one at least");
  return addresses;
}

// Fills in what the paths to the peers decide.
void PlanFrames(const UdpSocket& socket, const UdpOptions& options, UdpPlan* plan) {
  size_t payload = kMostUdpPayloadBytes;
  std::string narrowest;
  for (const auto& [node, address] : plan->peers) {
    const std::string field = Cat("transport udp: peers: ", node, "=", options.peers.at(node));
    const size_t bytes = socket.PathPayloadBytes(field, address);
    if (bytes < payload || narrowest.empty()) narrowest = address.Text();
    payload = std::min(payload, bytes);
  }
  const size_t fits = FrameBytesIn(payload);
  const size_t most = socket.fragments() ? FrameBytesIn(kMostUdpPayloadBytes) : fits;
  const size_t wanted = options.max_frame_bytes;
  if (wanted > most) {
    throw Error("transport udp: max_frame_bytes=", wanted, ": the path to ", narrowest,
                " has room for ", fits, " (MTU ", payload + socket.local().header_bytes(),
                "); expected that at most", socket.fragments() ? "" : ", or fragment=1");
  }
  plan->info.max_frame_bytes = wanted ? wanted : fits;
  plan->most_segment_bytes = payload / kUdpAlign * kUdpAlign;
  plan->most_datagram_bytes =
      kUdpPrefixBytes + plan->info.max_frame_bytes + UdpPad(plan->info.max_frame_bytes);
  plan->info.overhead_bytes =
      kUdpPrefixBytes + socket.local().header_bytes() + kEthernetHeaderBytes;
}

// "1=10.0.0.2:7777,2=host:7777"
std::map<NodeId, std::string> ParsePeers(const std::string& text) {
  std::map<NodeId, std::string> peers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = part.find('=');
    const auto node = ParseNumber<NodeId>(part.substr(0, equals));
    if (equals == std::string::npos || !node) {
      throw Error("transport udp: peers: ", part,
                  ": expected NODE=HOST:PORT, node from 0 to 65534");
    }
    if (!peers.emplace(*node, part.substr(equals + 1)).second) {
      throw Error("transport udp: peers: node ", *node, " is there twice");
    }
  }
  return peers;
}

std::unique_ptr<Transport> MakeUdp(const TransportConfig& config) {
  config.ExpectOnly({"address", "peers", "interface", "max_frame_bytes", "fragment", "gso", "gro",
                     "receive_buffer_bytes", "send_buffer_bytes", "receive_buffers",
                     "window_frames", "silence_ms"});
  UdpOptions options;
  UdpSocketOptions& socket = options.socket;
  constexpr int64_t kMost = INT64_MAX;  // ConnectUdp knows the bounds
  options.node = config.node;
  options.clock = config.clock;
  options.peers = ParsePeers(config.Text("peers"));
  options.max_frame_bytes =
      config.Int("max_frame_bytes", 0, kLeastFrameBytes, kMostUdpPayloadBytes);
  options.window_frames = config.Int("window_frames", 0, 1, kMostWindow);
  options.receive_buffers = config.Int("receive_buffers", options.receive_buffers, 0, kMost);
  options.silence_ms = config.Int("silence_ms", options.silence_ms, 0, kMost);
  socket.address = config.Text("address");
  socket.interface = config.Text("interface", "");
  socket.receive_buffer_bytes =
      config.Int("receive_buffer_bytes", socket.receive_buffer_bytes, 0, kMost);
  socket.send_buffer_bytes = config.Int("send_buffer_bytes", socket.send_buffer_bytes, 0, kMost);
  socket.fragment = config.Int("fragment", 0, 0, 1);
  socket.gso = config.Int("gso", 1, 0, 1);
  socket.gro = config.Int("gro", 1, 0, 1);
  return ConnectUdp(UdpSocket(socket), options);
}

const RegisterTransport udp("udp", MakeUdp);

}  // namespace

std::unique_ptr<Transport> ConnectUdp(UdpSocket socket, const UdpOptions& options) {
  ExpectInteger("udp", "window_frames", options.window_frames, 0, kMostWindow);
  ExpectInteger("udp", "receive_buffers", options.receive_buffers, 2, 4096);
  ExpectInteger("udp", "silence_ms", options.silence_ms, 1, 3'600'000);
  if (options.max_frame_bytes != 0) {
    ExpectInteger("udp", "max_frame_bytes", options.max_frame_bytes, kLeastFrameBytes,
                  kMostUdpPayloadBytes);
  }
  UdpPlan plan;
  plan.peers = ResolvePeers(socket, options);
  plan.info.name = "udp";
  plan.info.node = options.node;
  for (const auto& [node, address] : plan.peers) plan.info.peers.push_back(node);
  plan.info.copies = true;
  PlanFrames(socket, options, &plan);
  plan.window_frames = static_cast<uint32_t>(options.window_frames);
  if (plan.window_frames == 0) {
    plan.window_frames =
        WindowFor(socket.receive_buffer_bytes(), plan.most_datagram_bytes, plan.peers.size());
  }
  plan.receive_buffers = options.receive_buffers;
  plan.silence_ns = options.silence_ms * 1'000'000;
  plan.clock = options.clock;
  return std::make_unique<UdpEndpoint>(std::move(socket), plan);
}

}  // namespace millrace
