#include "test/sim/fabric/bound.h"

#include <algorithm>
#include <vector>

#include "exchange/kernels/codec.h"
#include "exchange/protocol/frame.h"

namespace millrace::sim {

SweepCost CostOfSweep(const Partition& cut, size_t members, uint16_t max_nodes, double answered) {
  const auto header = static_cast<int64_t>(kFrameHeaderBytes);
  const auto acks = static_cast<int64_t>(8 * AckWords(max_nodes));
  const int64_t floats = cut.chunk_floats;
  const int64_t of_diff = MinPayloadBytes(cut.codec, floats);
  const auto position = static_cast<double>(cut.wire.BytesOf(header + acks + 4 * floats));
  const auto diff = static_cast<double>(cut.wire.BytesOf(header + of_diff));
  const auto workers = static_cast<double>(members - 1);
  const double owned = static_cast<double>(cut.chunks) / static_cast<double>(members);
  const double others = static_cast<double>(cut.chunks) - owned;
  // A position is one multicast frame, or one frame per worker. A diff goes to one master, and a
  // master receives one from each of its workers.
  const double sent =
      (cut.multicast ? owned : owned * workers) * position + answered * others * diff;
  const double received = others * position + answered * owned * workers * diff;
  const auto seen =
      static_cast<double>(cut.wire.BytesOf(header + static_cast<int64_t>(kChunkNumberBytes)));
  const double unanswered = std::max(1 - answered, 0.0) * others;
  const double frames = others + answered * others + unanswered;
  const double control = unanswered * seen + frames * static_cast<double>(cut.wire.CreditBytes());
  return {sent, received, sent + control, received + control};
}

SweepCost CostOfBusiest(const Partition& cut, const Shape& shape, double answered) {
  std::vector<SweepCost> ports(shape.nodes);
  SweepCost busiest;
  for (const std::vector<uint16_t>& segment : shape.segments) {
    const auto max_nodes = static_cast<uint16_t>(segment.back() + 1);
    const SweepCost cost = CostOfSweep(cut, segment.size(), max_nodes, answered);
    for (const uint16_t node : segment) {
      SweepCost& port = ports[node];
      busiest.sent = std::max(busiest.sent, port.sent += cost.sent);
      busiest.received = std::max(busiest.received, port.received += cost.received);
      busiest.max_sent = std::max(busiest.max_sent, port.max_sent += cost.max_sent);
      busiest.max_received = std::max(busiest.max_received, port.max_received += cost.max_received);
    }
  }
  return busiest;
}

double MaxSweeps(const Partition& cut, const Shape& shape, double answered,
                 const PortRates& rates) {
  const SweepCost cost = CostOfBusiest(cut, shape, answered);
  return 1 / std::max(cost.sent / rates.out_bytes_per_second,
                      cost.received / rates.in_bytes_per_second);
}

}  // namespace millrace::sim
