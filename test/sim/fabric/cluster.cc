#include "test/sim/fabric/cluster.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"

namespace millrace::sim {
namespace {

constexpr size_t kBatch = 64;
constexpr int kMaxBatches = 8;
// Maximum frames queued in a device before it refuses more. Equals the default number of slots
// of an exchange.
constexpr int64_t kMaxUnsent = 256;
constexpr uint64_t kRun = 0x5ca1e000;

// Floats per chunk for which a position is as long as the longest frame.
int64_t ChunkFloats(const FabricClusterOptions& options) {
  if (options.port.chunk_floats > 0) return options.port.chunk_floats;
  const auto head = static_cast<int64_t>(kFrameHeaderBytes + 8 * AckWords(options.shape.nodes));
  return (options.port.wire.max_frame_bytes - head) / 4;
}

FabricPortOptions Filled(const FabricClusterOptions& options) {
  FabricPortOptions port = options.port;
  port.chunk_floats = ChunkFloats(options);
  return port;
}

}  // namespace

Partition CutOf(const FabricClusterOptions& options) {
  return {options.port.wire, options.chunks, ChunkFloats(options), options.codec,
          options.port.multicast};
}

struct FabricCluster::Totals {
  std::vector<PortCounts> ports;
  std::vector<ExchangeStats> ends;
  int64_t position_bytes = 0;
};

FabricCluster::FabricCluster(const FabricClusterOptions& options)
    : options_(options),
      chunk_floats_(ChunkFloats(options)),
      max_backlog_ns_(static_cast<int64_t>(
          static_cast<double>(kMaxUnsent *
                              options.port.wire.BytesOf(options.port.wire.max_frame_bytes)) /
          options.port.rates.out_bytes_per_second * 1e9)),
      port_(options.shape, Filled(options)),
      nodes_(options.shape.nodes),
      ends_(port_.ends().size()),
      room_(kBatch) {
  for (Node& node : nodes_) node.weights.assign(options.chunks * kFloats, 0.0f);
  for (size_t end = 0; end < ends_.size(); ++end) Start(end);
}

void FabricCluster::Start(size_t index) {
  const FabricPort::End& place = port_.ends()[index];
  Node& node = nodes_[place.node];
  ExchangeConfig config;
  config.run = kRun + place.segment;
  config.node = place.node;
  // As in topology/: node ids are indices into the file.
  const std::vector<uint16_t>& members = options_.shape.segments[place.segment];
  config.max_nodes = static_cast<uint16_t>(members.back() + 1);
  config.max_members = static_cast<uint16_t>(members.size());
  SetBootstrap(members, &config);
  config.codec.codec = options_.codec;
  config.slots = options_.slots;
  const auto make_progress = [this, &node](std::span<const ChunkOp> ops) {
    for (const ChunkOp& op : ops) {
      const bool takes = op.kind == ChunkOpKind::kTake ||
                         (op.kind == ChunkOpKind::kExchange && op.take) ||
                         op.kind == ChunkOpKind::kRead;
      if (!busy_ || !takes) continue;
      node.weights[int64_t{op.chunk} * kFloats] += 1;
      ++node.made;
    }
  };
  End& end = ends_[index];
  end.Start(config, node.weights, kFloats, nullptr, {.before = make_progress});
  end.held.reserve(options_.slots);
}

// ---- One node ---------------------------------------------------------------

void FabricCluster::Receive(uint16_t node) {
  const std::vector<size_t>& ends = port_.ends_of(node);
  // Runs timers even if no frame has arrived.
  for (const size_t end : ends) ends_[end].exchange->Receive({}, now_);
  for (bool more = true; more;) {
    arrived_.clear();
    FabricPort::Arrived arrived;
    while (arrived_.size() < kBatch && (more = port_.Take(node, now_, &arrived))) {
      arrived_.push_back(arrived);
    }
    for (const size_t end : ends) {
      frames_.clear();
      for (const FabricPort::Arrived& each : arrived_) {
        if (each.end == end) frames_.push_back(each.bytes);
      }
      if (!frames_.empty()) ends_[end].exchange->Receive(frames_, now_);
    }
    for (const FabricPort::Arrived& each : arrived_) port_.Release(each, now_);
  }
}

// Propagates merges of one segment to the node's other segments, as Cluster does (src/cluster).
void FabricCluster::ForwardMerges(uint16_t node) {
  const std::vector<size_t>& ends = port_.ends_of(node);
  if (ends.size() < 2) return;
  for (const size_t end : ends) {
    const ExchangeStats& stats = ends_[end].exchange->stats();
    const uint64_t merges = stats.positions_taken + stats.diffs_merged;
    if (merges == ends_[end].merges) continue;
    ends_[end].merges = merges;
    for (const size_t other : ends) {
      if (other != end) ends_[other].exchange->WeightsChanged();
    }
  }
}

// Sends held frames whose windows have room. A destination without room does not block others.
void FabricCluster::Offer(size_t index) {
  End& end = ends_[index];
  size_t kept = 0;
  full_.clear();
  for (const PostedFrame& frame : end.held) {
    const uint16_t to = frame.destination;
    const bool tried = std::find(full_.begin(), full_.end(), to) != full_.end();
    const bool busy = port_.fabric().BacklogNs(port_.ends()[index].node, now_) >= max_backlog_ns_;
    if (!tried && !busy && port_.Send(index, frame, now_)) {
      end.exchange->Release(frame.slot);
      continue;
    }
    if (!tried) full_.push_back(to);
    end.held[kept++] = frame;
  }
  end.held.resize(kept);
}

// Returns true if more frames may be sendable at once.
bool FabricCluster::Send(uint16_t node, size_t index) {
  End& end = ends_[index];
  Offer(index);
  const size_t before = end.held.size(), room = std::min(kBatch, options_.slots - before);
  if (port_.fabric().BacklogNs(node, now_) >= max_backlog_ns_ || room == 0) return false;
  const size_t count = end.exchange->Send({room_.data(), room}, now_);
  end.held.insert(end.held.end(), room_.begin(), room_.begin() + static_cast<ptrdiff_t>(count));
  Offer(index);
  return count == room && end.held.size() < before + count;
}

void FabricCluster::Pass(uint16_t node) {
  const std::vector<size_t>& ends = port_.ends_of(node);
  Node& self = nodes_[node];
  if (busy_) {
    ++self.iterations;
    for (const size_t end : ends) ends_[end].exchange->SetProgress(self.iterations);
  }
  Receive(node);
  ForwardMerges(node);
  bool more = true;
  for (int batch = 0; more && batch < kMaxBatches; ++batch) {
    more = false;
    for (const size_t end : ends) more = Send(node, end) || more;
  }
  self.due = INT64_MAX;
  for (const size_t end : ends) {
    self.due = std::min(self.due, ends_[end].exchange->NextEvent(now_));
    if (!ends_[end].held.empty()) self.due = now_;
  }
  if (busy_) self.due = now_;
}

// ---- All --------------------------------------------------------------------

void FabricCluster::Step() {
  int64_t next = port_.fabric().NextEvent();
  for (const Node& node : nodes_) next = std::min(next, node.due);
  const int64_t passes =
      std::max<int64_t>((next - now_ + options_.pass_ns - 1) / options_.pass_ns, 1);
  now_ += passes * options_.pass_ns;
  port_.fabric().Advance(now_);
  for (uint16_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].due <= now_ || port_.fabric().NextArrival(node) <= now_) Pass(node);
  }
}

bool FabricCluster::InSync() const {
  for (size_t end = 0; end < ends_.size(); ++end) {
    const Exchange& exchange = *ends_[end].exchange;
    if (!exchange.in_sync() ||
        exchange.view().synced() != options_.shape.segments[port_.ends()[end].segment].size()) {
      return false;
    }
  }
  return true;
}

bool FabricCluster::Quiescent() const {
  return std::all_of(ends_.begin(), ends_.end(),
                     [](const End& end) { return end.held.empty() && end.exchange->quiescent(); });
}

void FabricCluster::Join(int64_t within_ns) {
  const int64_t until = now_ + within_ns;
  while (!(InSync() && Quiescent())) {
    if (now_ > until) {
      const auto joined = std::count_if(ends_.begin(), ends_.end(),
                                        [](const End& end) { return end.exchange->in_sync(); });
      throw Error("cluster: ", joined, " of ", ends_.size(), " ends in sync after ",
                  within_ns * 1e-9, " s");
    }
    Step();
  }
}

void FabricCluster::Work(bool busy) {
  busy_ = busy;
  for (uint16_t node = 0; node < nodes_.size(); ++node) {
    // Makes the exchanges examine the last progress, too.
    ++nodes_[node].iterations;
    for (const size_t end : port_.ends_of(node)) {
      ends_[end].exchange->SetProgress(nodes_[node].iterations);
    }
    nodes_[node].due = now_;
  }
}

void FabricCluster::Run(int64_t ns) {
  for (const int64_t until = now_ + ns; now_ < until;) Step();
}

FabricCluster::Totals FabricCluster::Read() const {
  Totals totals;
  for (uint16_t node = 0; node < nodes_.size(); ++node) {
    totals.ports.push_back(port_.fabric().counts(node));
  }
  for (const End& end : ends_) totals.ends.push_back(end.exchange->stats());
  totals.position_bytes = port_.position_bytes();
  return totals;
}

Reading FabricCluster::Measure(int64_t ns) {
  const int64_t begin = now_;
  const Totals before = Read();
  Run(ns);
  const Totals after = Read();
  Reading reading;
  reading.seconds = static_cast<double>(now_ - begin) * 1e-9;
  const double per_node = 1 / (reading.seconds * static_cast<double>(nodes_.size()));
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const PortCounts& a = before.ports[node];
    const PortCounts& b = after.ports[node];
    const auto out = static_cast<double>(b.bytes_out - a.bytes_out);
    const auto in = static_cast<double>(b.bytes_in - a.bytes_in);
    reading.sent_bytes += out * per_node;
    reading.received_bytes += in * per_node;
    reading.max_sent_bytes = std::max(reading.max_sent_bytes, out / reading.seconds);
    reading.max_received_bytes = std::max(reading.max_received_bytes, in / reading.seconds);
    reading.deepest_queue_bytes = std::max(reading.deepest_queue_bytes, b.deepest_queue_bytes);
  }
  reading.position_bytes = after.position_bytes - before.position_bytes;
  std::vector<double> sweeps(options_.shape.segments.size()), merges = sweeps;
  for (size_t end = 0; end < ends_.size(); ++end) {
    const Exchange& exchange = *ends_[end].exchange;
    const ExchangeStats &a = before.ends[end], &b = after.ends[end];
    const auto position = static_cast<size_t>(FrameType::kPosition);
    const uint64_t taken = b.positions_taken - a.positions_taken;
    const uint64_t merged = b.diffs_merged - a.diffs_merged;
    reading.positions_sent += b.sent[position] - a.sent[position];
    reading.positions_taken += taken;
    reading.diffs_merged += merged;
    reading.resends += b.resends - a.resends;
    const size_t segment = port_.ends()[end].segment;
    const auto members = static_cast<double>(options_.shape.segments[segment].size());
    const auto owned = static_cast<double>(exchange.table().owned.size());
    const auto others = static_cast<double>(options_.chunks) - owned;
    sweeps[segment] += static_cast<double>(taken) / others / members / reading.seconds;
    // In a segment each chunk has members - 1 workers.
    merges[segment] += static_cast<double>(merged) / static_cast<double>(options_.chunks) /
                       (members - 1) / reading.seconds;
  }
  double ends = 0;
  for (size_t segment = 0; segment < sweeps.size(); ++segment) {
    const auto members = static_cast<double>(options_.shape.segments[segment].size());
    reading.sweeps += sweeps[segment] * members;
    reading.merges += merges[segment] * members;
    ends += members;
  }
  reading.sweeps /= ends;
  reading.merges /= ends;
  reading.min_sweeps = *std::min_element(sweeps.begin(), sweeps.end());
  return reading;
}

Spread FabricCluster::MeasureSpread(int marks, uint64_t seed, int64_t within_ns) {
  struct Mark {
    int64_t chunk;
    uint16_t from;
    std::vector<bool> seen;
    size_t left;
  };
  Rng rng(seed, {kRun});
  std::vector<Mark> all;
  for (int i = 0; i < marks; ++i) {
    const int64_t chunk = i * options_.chunks / marks;
    const auto from = static_cast<uint16_t>(rng.Below(nodes_.size()));
    nodes_[from].weights[chunk * kFloats + 1] += 1;
    all.push_back({chunk, from, std::vector<bool>(nodes_.size()), nodes_.size() - 1});
    all.back().seen[from] = true;
  }
  // Marks stay in the weights; later calls add to them.
  const int64_t begin = now_;
  std::vector<float> expected(marks);
  for (int i = 0; i < marks; ++i) {
    expected[i] = nodes_[all[i].from].weights[all[i].chunk * kFloats + 1];
  }
  double sum = 0, last = 0;
  size_t open = all.size();
  while (open > 0) {
    if (now_ - begin > within_ns) throw Error("cluster: marks did not get everywhere");
    Step();
    for (int i = 0; i < marks; ++i) {
      Mark& mark = all[i];
      for (uint16_t node = 0; mark.left > 0 && node < nodes_.size(); ++node) {
        if (mark.seen[node] || nodes_[node].weights[mark.chunk * kFloats + 1] < expected[i]) {
          continue;
        }
        mark.seen[node] = true;
        sum += static_cast<double>(now_ - begin);
        if (--mark.left > 0) continue;
        last += static_cast<double>(now_ - begin);
        --open;
      }
    }
  }
  const auto replicas = static_cast<double>(nodes_.size() - 1);
  return {sum / replicas / marks, last / marks};
}

bool FabricCluster::Settle(int64_t within_ns) {
  const int64_t until = now_ + within_ns;
  while (!(Quiescent() && port_.fabric().idle())) {
    if (now_ > until) return false;
    Step();
  }
  return true;
}

bool FabricCluster::Conserved() const {
  double made = 0, held = 0;
  for (const Node& node : nodes_) {
    made += static_cast<double>(node.made);
    if (node.weights != nodes_[0].weights) return false;
  }
  for (int64_t chunk = 0; chunk < options_.chunks; ++chunk) {
    held += nodes_[0].weights[chunk * kFloats];
  }
  return made == held;
}

}  // namespace millrace::sim
