#include "cluster/device_link.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "segment/replica_device.h"
#include "transport/loopback/transport.h"

namespace millrace::inline cluster {
namespace {

constexpr NodeId kHost = 0, kDevice = 1;
// The largest chunk that kernels take: per frame, the processor's work hardly depends on its size.
constexpr int64_t kChunkFloats = 8192;
constexpr int64_t kQueueFrames = 256;
constexpr int64_t kHeartbeatNs = 5'000'000;
// Both ends live and die with the process: neither is ever suspected.
constexpr int64_t kPeerTimeoutNs = 600'000'000'000;
// No frame is lost, so a late answer only means a busy peer.
constexpr int64_t kResendNs = 100'000'000;

NodeId RootOf(const DeviceLinkConfig& link) {
  return link.root == LinkRoot::kHost ? kHost : kDevice;
}

ExchangeConfig ExchangeOf(const DeviceLinkConfig& link, NodeId node) {
  ExchangeConfig config;
  config.run = 1;
  config.node = node;
  config.max_nodes = 2;
  config.heartbeat_ns = kHeartbeatNs;
  config.peer_timeout_ns = kPeerTimeoutNs;
  config.resend_ns = kResendNs;
  config.damping = config.passes_all_on = link.damping;
  config.sole_bootstrapper = node == RootOf(link);
  config.bootstrap_after_ns = config.sole_bootstrapper ? 0 : -1;
  config.bootstraps_when_allowed = link.awaits_weights;
  return config;
}

int64_t ChunkFloatsOf(int64_t size) { return std::min(kChunkFloats, size); }

LoopbackOptions HubOptions(const DeviceLinkConfig& link, int64_t size, const Clock* clock) {
  const int64_t floats = ChunkFloatsOf(size);
  LoopbackOptions options;
  options.queue_frames = kQueueFrames;
  options.max_frame_bytes = static_cast<int64_t>(
      MaxFrameBytes(ExchangeOf(link, kHost), {.size = floats, .chunk_floats = floats}));
  options.clock = clock;
  return options;
}

NetSegmentConfig EndConfig(const DeviceLinkConfig& link, NodeId node, int64_t size) {
  NetSegmentConfig config;
  config.name = node == kHost ? link.name : link.name + " end";
  config.exchange = ExchangeOf(link, node);
  config.chunk_floats = ChunkFloatsOf(size);
  config.max_bytes_per_second = link.max_bytes_per_second;
  config.leader = RootOf(link);
  HandshakeConfig& handshake = config.filter.handshake;
  handshake.names = {"host", link.name};
  handshake.first_ns = kHeartbeatNs;
  handshake.settings.parameters = static_cast<uint64_t>(size);
  config.staleness_remedies =
      "The processors and the bus of this machine are the limit. What helps: a larger batch_size, "
      "fewer solvers on processors (--cpu), fewer GPUs";
  if (node == kHost) config.registry = link.registry;
  return config;
}

}  // namespace

DeviceLink::DeviceLink(const DeviceLinkConfig& config, WeightBuffer* host, DeviceWeights* device,
                       const Clock* clock)
    : root_(config.root), clock_(*clock), solvers_(config.solvers) {
  CHECK_EQ(host->size(), device->size());
  LoopbackHub hub(HubOptions(config, host->size(), clock));
  const auto end = [&](NodeId node, float* weights, const ReplicaDevice& replica) {
    return std::make_unique<NetSegment>(EndConfig(config, node, host->size()), hub.Connect(node),
                                        weights, host->size(), replica);
  };
  host_ = end(kHost, host->data(), HostReplica(&host->locks()));
  device_ = end(kDevice, device->data(), ReplicaOn(device->device(), nullptr, &device->order()));
}

void DeviceLink::Stop() {
  device_thread_.reset();
  host_thread_.reset();
}

void DeviceLink::Start(ErrorSink* sink, std::function<void()> before_pass) {
  sink_ = sink;
  host_thread_ =
      std::make_unique<SegmentThread>(host_.get(), SegmentThreadOptions{.solvers = solvers_},
                                      &clock_, &errors_, std::move(before_pass));
  device_thread_ =
      std::make_unique<SegmentThread>(device_.get(), SegmentThreadOptions{}, &clock_, &errors_);
}

// Runs in the thread that has failed.
void DeviceLink::PassOnError() {
  failed_ = true;
  try {
    errors_.RethrowIfFailed();
  } catch (...) {
    sink_->Report(std::current_exception());
  }
}

void DeviceLink::SetProgress(uint64_t host, uint64_t device) {
  Raise(&host_->state(), host);
  Raise(&device_->state(), device);
}

void DeviceLink::SetOtherMerges(uint64_t host, uint64_t device) {
  host_->state().SetOtherMerges(host);
  device_->state().SetOtherMerges(device);
}

void DeviceLink::Raise(SegmentState* state, uint64_t progress) {
  if (progress > state->progress()) state->SetProgress(progress);
}

}  // namespace millrace::inline cluster
