#include "cluster/sweep_estimate.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "base/error.h"
#include "base/files/file.h"
#include "cluster/link_speed.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/codec_config.h"
#include "exchange/protocol/frame.h"
#include "millrace/transport_registry.h"
#include "proto/bench.pb.h"

namespace millrace::inline cluster {
namespace {

// Bytes added to each frame by Ethernet, IP, UDP and the transport's prefix.
constexpr double kAroundFrame = 78;
constexpr double kSparsePresent = 0.1;

// Send rate of this node that `millrace bench` measured, Mbit/s on the wire; 0 without a result.
double MeasuredMegabits(const Topology& topology, const NodePlan& node, const SegmentPlan& segment,
                        const std::string& path) {
  if (!FileExists(path)) return 0;
  BenchResult result;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(ReadFile(path), &result, options);
  if (!status.ok()) {
    throw Error(path, ": not what millrace bench --json prints: ", status.ToString());
  }
  if (result.cluster() != topology.name) {
    throw Error(path, ": cluster: \"", result.cluster(), "\" given, expected \"", topology.name,
                "\", as the topology beside it has it");
  }
  for (const BenchSegmentResult& each : result.segment()) {
    if (each.name() != segment.name) continue;
    for (const BenchEndResult& end : each.end()) {
      if (end.node() == node.name) return 8 * end.wire_megabytes_out();
    }
  }
  return 0;
}

// Bytes of a sparse payload in which `share` of the elements of a chunk are present, of `width`
// bytes each: by gaps (sparse_gaps.h), or with a bit for each element.
double SparseBytes(double share, double width, double floats) {
  return std::min(share * (1 + width), share * width + 1.0 / 8) * floats;
}

double PositionPayload(const SegmentPlan& segment, double floats) {
  const ExchangeConfig& exchange = segment.exchange;
  if (exchange.position_codec != Codec::kSparse) {
    return MinPayloadBytes(exchange.position_codec, segment.chunk_floats);
  }
  constexpr double kGapAndBfloat16 = 3;
  return exchange.position_share * kGapAndBfloat16 * floats;
}

double DiffPayload(const SegmentPlan& segment, double floats) {
  const CodecConfig& codec = segment.exchange.codec;
  if (HasThreshold(codec)) return SparseBytes(kSparsePresent, 4, floats);
  if (HasShare(codec)) return SparseBytes(codec.share, 4, floats);
  return MinPayloadBytes(codec.codec, segment.chunk_floats);
}

}  // namespace

LinkRate RateOf(const Topology& topology, const NodePlan& node, const SegmentPlan& segment) {
  LinkRate rate;
  const auto consider = [&](double megabits, const std::string& source) {
    if (!(megabits > 0) || (rate.megabits > 0 && rate.megabits <= megabits)) return;
    rate = {megabits, source};
  };
  consider(segment.max_bytes_per_second * 8e-6, "max_mbps");
  const std::string path = topology.source.file() + ".bench.json";
  consider(MeasuredMegabits(topology, node, segment, path), path);
  consider(LinkMegabits(segment), "as its interface says");
  return rate;
}

SweepEstimate EstimateSweep(const SegmentPlan& segment, int64_t floats, double megabits) {
  const auto cut = static_cast<double>(std::max<int64_t>(segment.chunk_floats, 1));
  const auto chunks = static_cast<double>(floats) / cut;
  const auto peers = static_cast<double>(segment.peers.size());
  const double around = kAroundFrame + static_cast<double>(kFrameHeaderBytes);
  const double position = around + PositionPayload(segment, cut) +
                          8 * static_cast<double>(AckWords(segment.exchange.max_nodes));
  const double diff = around + DiffPayload(segment, cut);
  const double own = chunks / (peers + 1), others = chunks - own;
  const TransportDescriptor& transport =
      *TransportRegistry::Get().Find(segment.transport.transport);
  const bool multicast = transport.multicasts && transport.multicasts(segment.transport);
  SweepEstimate found;
  found.bytes_out = own * (multicast ? 1 : peers) * position + others * diff;
  found.bytes_in = others * position + own * peers * diff;
  if (megabits > 0) {
    found.seconds = std::max(found.bytes_out, found.bytes_in) * 8e-6 / megabits;
  }
  return found;
}

}  // namespace millrace::inline cluster
