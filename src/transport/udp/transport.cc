#include "transport/udp/transport.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "millrace/transport_registry.h"
#include "transport/check_range.h"
#include "transport/credited_endpoint.h"
#include "transport/inet_address.h"
#include "transport/udp/link.h"
#include "transport/udp/wire.h"

namespace millrace::inline transport {
namespace {

constexpr int64_t kMinFrameBytes = 64;
constexpr int64_t kMaxWindow = 1 << 20;
constexpr size_t kEthernetHeaderBytes = 14;
constexpr size_t kMaxFramesPerBuffer = 128;  // if the kernel coalesces

// The longest frame, with its padding, in a datagram of `payload` bytes.
size_t FrameBytesIn(size_t payload) { return payload / kUdpAlign * kUdpAlign - kUdpPrefixBytes; }

// Upper bound on the kernel's charge against the receive buffer for one datagram: its memory (a
// page, a power of two, or above 16 KiB whole pages) and the descriptors.
size_t KernelCost(size_t datagram_bytes) {
  constexpr size_t kDescriptions = 1024, kPage = 4096, kMaxBlock = 16384;
  const size_t bytes = std::max(datagram_bytes + 512, kPage);
  if (bytes > kMaxBlock) return bytes + kPage + kDescriptions;
  return std::bit_ceil(bytes) + kDescriptions;
}

// Frames per peer that the receive buffer is certain to hold at once. The kernel releases the
// charge of read datagrams only in steps of a quarter of the buffer, and credits and probes need
// room too.
uint32_t WindowFor(size_t buffer_bytes, size_t datagram_bytes, size_t peers) {
  const size_t frames = buffer_bytes / 8 * 5 / KernelCost(datagram_bytes) / peers;
  return static_cast<uint32_t>(std::clamp<size_t>(frames, 1, 1024));
}

// Sets the frame and datagram sizes, which depend on the paths to the peers.
void PlanFrames(const UdpSocket& socket, const UdpOptions& options, UdpPlan* plan,
                TransportInfo* info) {
  size_t payload = kMaxUdpPayloadBytes;
  std::string narrowest;
  for (const auto& [node, address] : plan->peers) {
    if (!address.is_known()) continue;
    const std::string field = StrCat("transport udp: peers: ", node, "=", options.peers.at(node));
    const size_t bytes = socket.PathPayloadBytes(field, address);
    if (bytes < payload || narrowest.empty()) narrowest = address.Text();
    payload = std::min(payload, bytes);
  }
  // Without a known address of a peer, the option max_frame_bytes gives the size.
  if (narrowest.empty() && options.max_frame_bytes > 0) {
    payload = kUdpPrefixBytes + options.max_frame_bytes + UdpPad(options.max_frame_bytes);
  }
  const size_t fits = FrameBytesIn(payload);
  const size_t most = socket.fragments() ? FrameBytesIn(kMaxUdpPayloadBytes) : fits;
  const size_t wanted = options.max_frame_bytes;
  if (wanted > most) {
    throw Error("transport udp: max_frame_bytes=", wanted, ": the path to ", narrowest,
                " has room for ", fits, " (MTU ", payload + socket.local().header_bytes(),
                "); expected that at most", socket.fragments() ? "" : ", or fragment=1");
  }
  info->max_frame_bytes = wanted ? wanted : fits;
  plan->max_segment_bytes = payload / kUdpAlign * kUdpAlign;
  plan->max_datagram_bytes =
      kUdpPrefixBytes + info->max_frame_bytes + UdpPad(info->max_frame_bytes);
  info->overhead_bytes = kUdpPrefixBytes + socket.local().header_bytes() + kEthernetHeaderBytes;
}

}  // namespace

std::unique_ptr<Transport> MakeUdp(const TransportConfig& config) {
  UdpOptions options;
  UdpSocketOptions& socket = options.socket;
  constexpr int64_t kMax = INT64_MAX;  // ConnectUdp checks the bounds
  options.node = config.node;
  options.clock = config.clock;
  options.peers = config.Peers("HOST:PORT");
  options.max_frame_bytes = config.Int("max_frame_bytes", 0, kMinFrameBytes, kMaxUdpPayloadBytes);
  options.window_frames = config.Int("window_frames", 0, 1, kMaxWindow);
  options.receive_buffers = config.Int("receive_buffers", options.receive_buffers, 0, kMax);
  options.silence_ms = config.Int("silence_ms", options.silence_ms, 0, kMax);
  socket.address = config.Text("address");
  socket.interface = config.Text("interface", "");
  socket.receive_buffer_bytes =
      config.Int("receive_buffer_bytes", socket.receive_buffer_bytes, 0, kMax);
  socket.send_buffer_bytes = config.Int("send_buffer_bytes", socket.send_buffer_bytes, 0, kMax);
  socket.fragment = config.Int("fragment", 0, 0, 1);
  socket.gso = config.Int("gso", 1, 0, 1);
  socket.gro = config.Int("gro", 1, 0, 1);
  return ConnectUdp(UdpSocket(socket), options);
}

std::unique_ptr<Transport> ConnectUdp(UdpSocket socket, const UdpOptions& options) {
  ExpectInteger("udp", "window_frames", options.window_frames, 0, kMaxWindow);
  ExpectInteger("udp", "receive_buffers", options.receive_buffers, 2, 4096);
  ExpectInteger("udp", "silence_ms", options.silence_ms, 1, 3'600'000);
  if (options.max_frame_bytes != 0) {
    ExpectInteger("udp", "max_frame_bytes", options.max_frame_bytes, kMinFrameBytes,
                  kMaxUdpPayloadBytes);
  }
  UdpPlan plan;
  CreditedPlan ends;
  plan.peers = ResolveUdpPeers("udp", options.node, socket.local(), options.peers, true);
  plan.receive_buffers = options.receive_buffers;
  ends.info.name = "udp";
  ends.info.node = options.node;
  for (const auto& [node, address] : plan.peers) ends.info.peers.push_back(node);
  ends.info.copies = true;
  PlanFrames(socket, options, &plan, &ends.info);
  ends.window_frames = static_cast<uint32_t>(options.window_frames);
  if (ends.window_frames == 0) {
    ends.window_frames =
        WindowFor(socket.receive_buffer_bytes(), plan.max_datagram_bytes, plan.peers.size());
  }
  ends.receive_queue_frames = plan.receive_buffers * (socket.gro() ? kMaxFramesPerBuffer : 1);
  ends.silence_ns = options.silence_ms * 1'000'000;
  ends.clock = options.clock;
  return std::make_unique<CreditedEndpoint>(std::make_unique<UdpLink>(std::move(socket), plan),
                                            ends);
}

}  // namespace millrace::inline transport
