// Construction of a segment from a transport, weights and their device.
#include <algorithm>
#include <span>

#include "base/error.h"
#include "exchange/kernels/codec.h"
#include "segment/net_segment.h"

namespace millrace::inline segment {
namespace {

constexpr size_t kHandshakeBatch = 16;
constexpr size_t kGossipBatch = 16;
// Burst of the pacer, as time at the full rate. A thread with short sleeps still reaches the rate.
constexpr double kBurstSeconds = 0.004;

// Adds the fields that this node announces to its peers in the handshake.
FrameFilterConfig FilterConfigOf(const NetSegmentConfig& config, const TransportInfo& info,
                                 int64_t chunk_floats) {
  FrameFilterConfig filter = config.filter;
  HandshakeConfig& own = filter.handshake;
  own.run = config.exchange.run;
  own.node = config.exchange.node;
  own.incarnation = config.exchange.incarnation;
  own.multicast = info.multicast;
  own.settings.max_nodes = config.exchange.max_nodes;
  own.settings.chunk_floats = static_cast<uint32_t>(chunk_floats);
  return filter;
}

// Peers below `max_nodes`, ascending.
std::vector<NodeId> PeersOf(const TransportInfo& info, uint16_t max_nodes) {
  std::vector<NodeId> peers = info.peers;
  std::erase_if(peers, [&](NodeId peer) { return peer >= max_nodes; });
  std::sort(peers.begin(), peers.end());
  return peers;
}

GossipConfig GossipOf(const NetSegmentConfig& config, const Transport& transport) {
  GossipConfig gossip;
  gossip.run = config.exchange.run;
  gossip.node = config.exchange.node;
  gossip.incarnation = config.exchange.incarnation;
  gossip.peers = transport.info().peers;
  gossip.max_frame_bytes = transport.max_frame_bytes() - (config.filter.key ? kFrameTagBytes : 0);
  return gossip;
}

const MergeRuleDescriptor& RuleOf(const NetSegmentConfig& config) {
  try {
    return MergeRuleRegistry::Get().Check(config.rule);
  } catch (const Error& error) {
    throw Error("segment ", config.name, ": ", error.what());
  }
}

// Arrays of a replica beside its weights.
size_t OwnArrays(const MergeRuleDescriptor& rule) {
  return 2 + static_cast<size_t>(rule.state_floats);
}

ReplicaArrays ShapeOnly(int64_t floats) { return {.size = floats, .chunk_floats = floats}; }

}  // namespace

int64_t ChunkFloatsFor(size_t max_frame_bytes, const ExchangeConfig& config) {
  // Only MaxFrameBytes knows the overhead of a frame, so search for the largest chunk that fits.
  const auto least = static_cast<int64_t>(MaxFrameBytes(config, ShapeOnly(1)));
  const auto most = static_cast<int64_t>(max_frame_bytes);
  if (most < least) return 0;
  int64_t floats = most / 4;
  while (floats > 0 && static_cast<int64_t>(MaxFrameBytes(config, ShapeOnly(floats))) > most) {
    --floats;
  }
  // Two parameter arrays, which begin at multiples of kInt4Block, do not share a scale.
  // With kSparse, positions in full are kInt4.
  const bool has_scales = config.position_codec == Codec::kInt4 ||
                          config.position_codec == Codec::kSparse ||
                          config.codec.codec == Codec::kInt4;
  return has_scales && floats > kInt4Block ? floats - floats % kInt4Block : floats;
}

NetSegment::NetSegment(const NetSegmentConfig& config, std::unique_ptr<Transport> transport,
                       float* weights, int64_t count, const ReplicaDevice& replica_device)
    : config_(config),
      replica_device_(replica_device),
      rule_(RuleOf(config)),
      memory_(replica_device.device->memory(),
              OwnArrays(rule_) * sizeof(float) * static_cast<size_t>(count)),
      transport_(std::move(transport)),
      transmissions_of_multicast_(transport_->info().multicast ? 1
                                                               : transport_->info().peers.size()),
      max_wire_bytes_(
          static_cast<double>(transmissions_of_multicast_ *
                              (transport_->max_frame_bytes() + transport_->info().overhead_bytes))),
      pacer_(config.max_bytes_per_second,
             std::max(config.max_bytes_per_second * kBurstSeconds, 2 * max_wire_bytes_)) {
  replica_device_.device->memory().Fill(memory_.get(), 0, memory_.bytes());
  ExchangeConfig exchange = config.exchange;
  exchange.bytes_per_second = config.max_bytes_per_second;
  exchange.trailer_bytes = config.filter.key ? kFrameTagBytes : 0;
  exchange.rest_distance = rule_.RestDistance(config.rule.parameters);
  exchange.merges_own = MergeRuleRegistry::Get().MergesOwn(config.rule.name);
  const int64_t most = ChunkFloatsFor(transport_->max_frame_bytes(), exchange);
  if (most < 1 || config.chunk_floats > most) {
    throw Error("segment ", config.name, ": frames of ", transport_->max_frame_bytes(),
                " bytes carry ", most, " floats of a chunk: expected at least ",
                std::max<int64_t>(config.chunk_floats, 1), "; a larger mtu or a smaller ",
                "chunk_floats is needed");
  }
  exchange.direct = SendsDirect(weights, count);
  exchange.copy_diffs = !replica_device_.device->memory().on_host();
  MakeExecutor(most, weights, count);
  exchange_ = std::make_unique<Exchange>(exchange, executor_.get());
  filter_ = std::make_unique<FrameFilter>(
      FilterConfigOf(config, transport_->info(), arrays_.chunk_floats));
  link_log_ = std::make_unique<LinkLog>(config.name, config.filter.handshake.names,
                                        config.exchange.node, MaxFrameBytes(exchange, arrays_));
  join_log_ = std::make_unique<JoinLog>(config.name, config.filter.handshake.names,
                                        config.exchange.peer_timeout_ns);
  incarnation_ = filter_->handshake().incarnation();
  static_assert(OutGossip::kTrailerRoom == kFrameTagBytes);
  if (config.gossip) {
    gossip_ = std::make_unique<Gossip>(GossipOf(config, *transport_), config.gossip.get());
    gossip_out_.resize(kGossipBatch);
    unsent_gossip_.reserve(kGossipBatch);
  }
  held_.reserve(config.exchange.slots);
  full_.reserve(transport_->info().peers.size() + 1);
  out_.reserve(config.exchange.slots);
  handshake_.resize(kHandshakeBatch);
  accepted_.resize(config.exchange.slots + kHandshakeBatch + kGossipBatch);
  const std::vector<NodeId> peers = PeersOf(transport_->info(), config.exchange.max_nodes);
  sampler_ = std::make_unique<DivergenceSampler>(exchange_.get(), executor_.get(), peers);
  merged_ = std::make_unique<MergedReader>(exchange_.get(), executor_.get());
  if (config.registry == nullptr) own_registry_ = std::make_unique<MetricsRegistry>();
  metrics_ = std::make_unique<SegmentMetrics>(
      config.registry != nullptr ? config.registry : own_registry_.get(), config.name,
      &exchange_->metrics(), peers, config.filter.handshake.names);
}

NetSegment::~NetSegment() {
  try {
    executor_->Finish();
  } catch (const Error&) {
    // The device has failed, as Pass has reported, and accesses no memory any more.
  }
}

// Whether payloads are sent from where they lie. A frame tag covers the bytes on the wire, so
// signed frames need a copy of the changing weights, as positions that are rounded do. From device
// memory only positions are sent directly.
bool NetSegment::SendsDirect(const float* weights, int64_t count) {
  if (config_.filter.key || config_.exchange.position_codec != Codec::kFloat32) return false;
  if (!transport_->RegisterMemory(std::as_bytes(std::span(weights, static_cast<size_t>(count))))) {
    return false;
  }
  const bool from_weights = replica_device_.device->memory().on_host() &&
                            !MergeRuleRegistry::Get().MergesOwn(config_.rule.name);
  return from_weights || transport_->RegisterMemory({memory_.get<std::byte>(), memory_.bytes()});
}

void NetSegment::MakeExecutor(int64_t max_floats, float* weights, int64_t count) {
  float* const base = memory_.get<float>();
  arrays_ = {.weights = weights,
             .base = base,
             .pending = base + count,
             .rule_state = rule_.state_floats > 0 ? base + 2 * count : nullptr,
             .size = count,
             .chunk_floats = config_.chunk_floats > 0 ? config_.chunk_floats : max_floats};
  try {
    executor_ = replica_device_.make_executor(arrays_, config_.exchange.codec, config_.rule);
  } catch (const Error& error) {
    throw Error("segment ", config_.name, ": ", error.what());
  }
  for (const std::span<const std::byte> memory : transport_->ReceiveMemory()) {
    executor_->RegisterMemory(memory);  // if it fails, kernels get copies
  }
  in_.resize(executor_->batch_ops());
  views_.resize(in_.size());
}

}  // namespace millrace::inline segment
