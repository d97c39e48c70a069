#include "transport/verbs/transport.h"

#include <algorithm>

#include "base/error.h"
#include "millrace/transport_registry.h"
#include "transport/check_range.h"
#include "transport/credited_endpoint.h"
#include "transport/inet_address.h"
#include "transport/verbs/link.h"
#include "transport/verbs/window.h"
#include "transport/verbs/wire.h"

namespace millrace::inline transport {
namespace {

constexpr int64_t kMinFrameBytes = 64, kMaxFrameBytes = 65535;
constexpr int64_t kMaxWindow = 1 << 20;
constexpr int64_t kMinQueue = 16, kMaxQueue = kMaxVerbsQueue;

void ExpectRanges(const VerbsOptions& options) {
  ExpectInteger("verbs", "group", options.group, 0, UINT16_MAX);
  ExpectInteger("verbs", "window_frames", options.window_frames, 0, kMaxWindow);
  ExpectInteger("verbs", "send_slots", options.send_slots, kMinQueue, kMaxQueue);
  ExpectInteger("verbs", "silence_ms", options.silence_ms, 1, 3'600'000);
  if (options.receive_buffers != 0) {
    ExpectInteger("verbs", "receive_buffers", options.receive_buffers, kMinQueue, kMaxQueue);
  }
  if (options.max_frame_bytes != 0) {
    ExpectInteger("verbs", "max_frame_bytes", options.max_frame_bytes, kMinFrameBytes,
                  kMaxFrameBytes);
  }
}

size_t FrameBytesFor(const VerbsDevice& device, int64_t wanted) {
  const size_t fits = device.mtu() - sizeof(VerbsPrefix);
  if (static_cast<size_t>(wanted) > fits) {
    throw Error("transport verbs: max_frame_bytes=", wanted, ": ", device.name(), " has room for ",
                fits, " (MTU ", device.mtu(),
                "); expected that at most, or in a topology file an mtu of the segment that all "
                "its devices have");
  }
  return wanted ? static_cast<size_t>(wanted) : fits;
}

// Length of the queue set by `field`: `wanted`, or by default (0) `default_value` within the
// device's limit.
size_t QueueFor(const VerbsDevice& device, const char* field, int64_t wanted,
                size_t default_value) {
  if (wanted == 0) return std::min(default_value, device.max_requests());
  if (static_cast<size_t>(wanted) > device.max_requests()) {
    throw Error("transport verbs: ", field, "=", wanted, ": ", device.name(), " has queues of ",
                device.max_requests(), "; expected that at most");
  }
  return static_cast<size_t>(wanted);
}

VerbsMulticast ParseMulticast(const TransportConfig& config) {
  const std::string text = config.Text("multicast", "auto");
  if (text == "auto") return VerbsMulticast::kAuto;
  if (text == "off") return VerbsMulticast::kOff;
  if (text == "on") return VerbsMulticast::kOn;
  throw Error("transport verbs: multicast=", text, ": expected auto, on or off");
}

std::unique_ptr<Transport> MakeVerbs(const TransportConfig& config) {
  VerbsOptions options;
  constexpr int64_t kMax = INT64_MAX;  // ConnectVerbs checks the bounds
  options.node = config.node;
  options.clock = config.clock;
  options.address = config.Text("address");
  options.peers = config.Peers("HOST:PORT");
  options.group = config.Int("group", 0, 0, kMax);
  options.multicast = ParseMulticast(config);
  options.multicast_base = config.Text("multicast_base", "");
  options.max_frame_bytes = config.Int("max_frame_bytes", 0, kMinFrameBytes, kMaxFrameBytes);
  options.window_frames = config.Int("window_frames", 0, 1, kMaxWindow);
  options.receive_buffers = config.Int("receive_buffers", 0, 1, kMax);
  options.send_slots = config.Int("send_slots", options.send_slots, 0, kMax);
  options.silence_ms = config.Int("silence_ms", options.silence_ms, 0, kMax);
  return ConnectVerbs(options);
}

const RegisterBackend verbs("verbs", MakeVerbs);

}  // namespace

std::unique_ptr<Transport> ConnectVerbs(const VerbsOptions& options) {
  ExpectRanges(options);
  const InetAddress own = ResolveUdpAddress("transport verbs: address", options.address);
  VerbsPlan plan;
  plan.node = options.node;
  plan.group = static_cast<uint16_t>(options.group);
  plan.peers = ResolveUdpPeers("verbs", options.node, own, options.peers);
  plan.multicast = options.multicast != VerbsMulticast::kOff;
  plan.multicast_required = options.multicast == VerbsMulticast::kOn;
  plan.multicast_base = options.multicast_base;
  auto device = std::make_unique<VerbsDevice>(own);
  CreditedPlan ends;
  ends.info.name = "verbs";
  ends.info.node = options.node;
  for (const auto& [node, address] : plan.peers) ends.info.peers.push_back(node);
  ends.info.max_frame_bytes = FrameBytesFor(*device, options.max_frame_bytes);
  ends.info.overhead_bytes = device->overhead_bytes() + sizeof(VerbsPrefix);
  const size_t peers = plan.peers.size();
  plan.datagram_bytes = sizeof(VerbsPrefix) + ends.info.max_frame_bytes;
  // A frame to all peers may take one datagram per peer.
  const auto min_slots = static_cast<int64_t>(2 * (peers + 1));
  plan.send_slots = QueueFor(*device, "send_slots", std::max(options.send_slots, min_slots), 0);
  plan.receive_buffers =
      QueueFor(*device, "receive_buffers", options.receive_buffers, DefaultVerbsBuffers(peers));
  ends.window_frames = static_cast<uint32_t>(options.window_frames);
  if (ends.window_frames == 0) ends.window_frames = VerbsWindowFor(plan.receive_buffers, peers);
  ends.receive_queue_frames = plan.receive_buffers;
  ends.max_unfinished = plan.send_slots;
  ends.silence_ns = options.silence_ms * 1'000'000;
  ends.clock = options.clock;
  auto link = std::make_unique<VerbsLink>(std::move(device), plan);
  ends.info.multicast = link->multicasts();
  return std::make_unique<CreditedEndpoint>(std::move(link), ends);
}

}  // namespace millrace::inline transport
