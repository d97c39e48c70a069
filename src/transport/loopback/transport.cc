#include "transport/loopback/transport.h"

#include <map>
#include <mutex>

#include "base/error.h"
#include "millrace/transport_registry.h"
#include "transport/check_range.h"
#include "transport/loopback/endpoint.h"

namespace millrace::inline transport {
namespace {

constexpr int64_t kMaxNodes = 1024;
constexpr int64_t kMaxFrames = 1 << 20;
constexpr int64_t kMinFrameBytes = 64, kMaxFrameBytes = 1 << 20;

}  // namespace

std::unique_ptr<Transport> MakeLoopback(const TransportConfig& config) {
  LoopbackOptions options;
  options.nodes = config.Int("nodes", options.nodes, 2, kMaxNodes);
  options.queue_frames = config.Int("queue_frames", options.queue_frames, 1, kMaxFrames);
  options.max_frame_bytes =
      config.Int("max_frame_bytes", options.max_frame_bytes, kMinFrameBytes, kMaxFrameBytes);
  options.clock = config.clock;
  return LoopbackHub::Named(config.Text("hub", "default"), options).Connect(config.node);
}

LoopbackHub::LoopbackHub(const LoopbackOptions& options) {
  ExpectInteger("loopback", "nodes", options.nodes, 2, kMaxNodes);
  ExpectInteger("loopback", "queue_frames", options.queue_frames, 1, kMaxFrames);
  ExpectInteger("loopback", "max_frame_bytes", options.max_frame_bytes, kMinFrameBytes,
                kMaxFrameBytes);
  state_ = std::make_shared<State>(options);
}

std::unique_ptr<Transport> LoopbackHub::Connect(int node) {
  if (node < 0 || node >= state_->options.nodes) {
    throw Error("transport loopback: node ", node, ": expected one from 0 to ",
                state_->options.nodes - 1);
  }
  std::lock_guard<std::mutex> lock(state_->connecting);
  LoopbackPlace& place = state_->places[node];
  if (place.open) throw Error("transport loopback: node ", node, " is connected already");
  if (!place.ring) {
    place.ring =
        std::make_unique<FrameRing>(state_->options.queue_frames, state_->options.max_frame_bytes);
  }
  State::Drain(&place);
  auto endpoint = std::make_unique<LoopbackEndpoint>(static_cast<NodeId>(node), state_);
  place.open = true;
  return endpoint;
}

LoopbackHub LoopbackHub::Named(const std::string& name, const LoopbackOptions& options) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<State>> hubs;
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<State>& entry = hubs[name];
  if (std::shared_ptr<State> state = entry.lock()) {
    if (state->options == options) return LoopbackHub(std::move(state));
    throw Error("transport loopback: hub ", name,
                " exists with other options: expected the same nodes, queue_frames, ",
                "max_frame_bytes and clock");
  }
  LoopbackHub hub(options);
  entry = hub.state_;
  return hub;
}

void LoopbackHub::State::AnnounceRoom(LoopbackPlace* place) {
  if (!place->wanted.load(std::memory_order_seq_cst)) return;
  place->wanted.store(false, std::memory_order_seq_cst);
  for (LoopbackPlace& other : places) other.bell.Ring();
}

void LoopbackHub::State::Drain(LoopbackPlace* place) {
  while (place->ring->Ready()) place->ring->Take();
  place->ring->Release();
}

}  // namespace millrace::inline transport
