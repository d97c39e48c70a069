#include "segment/divergence_sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace millrace::inline segment {

namespace {

void AddDistance(const float* weights, const float* master, int64_t count, double* squares,
                 double* largest) {
  double sum = 0, most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double diff = double{weights[i]} - double{master[i]};
    sum += diff * diff;
    most = std::max(most, std::abs(diff));
  }
  *squares += sum;
  *largest = std::max(*largest, most);
}

}  // namespace

DivergenceSampler::DivergenceSampler(const Exchange* exchange, ChunkExecutor* executor,
                                     std::span<const NodeId> peers)
    : exchange_(*exchange),
      executor_(*executor),
      copies_(executor->payload_memory(), 2 * MaxPayloadBytes(executor->arrays().chunk_floats)),
      nodes_(peers.begin(), peers.end()),
      tallies_(peers.size()),
      round_trips_(peers.size()),
      peers_(peers.size()) {
  const NodeId most = peers.empty() ? NodeId{0} : *std::max_element(peers.begin(), peers.end());
  index_.assign(size_t{most} + 1, static_cast<uint32_t>(peers.size()));
  for (uint32_t i = 0; i < peers.size(); ++i) index_[peers[i]] = i;
  executor_.RegisterMemory({copies_.get<std::byte>(), copies_.bytes()});
}

bool DivergenceSampler::Sample(int64_t now_ns) {
  if (now_ns < next_ns_) return false;
  if (next_ns_ == INT64_MIN) {
    begin_ns_ = now_ns;
    begin_iterations_ = exchange_.global_iterations();
  }
  next_ns_ = now_ns + kStepNs;
  const int64_t chunks = exchange_.table().size();
  SampleChunks(static_cast<uint32_t>(step_ * chunks / kSteps),
               static_cast<uint32_t>((step_ + 1) * chunks / kSteps), now_ns);
  if (++step_ < kSteps) return false;
  End(now_ns);
  return true;
}

// Samples the weights of one of these chunks, of another one in each round.
void DivergenceSampler::SampleChunks(uint32_t begin, uint32_t end, int64_t now_ns) {
  bool sampled = false;
  for (uint32_t i = begin; i < end; ++i) {
    const auto index = static_cast<uint32_t>(begin + (i - begin + rounds_) % (end - begin));
    const Chunk& chunk = exchange_.table().chunks[index];
    if (!Counts(chunk)) continue;
    Tally& tally = tallies_[index_[chunk.owner]];
    const int64_t age = now_ns - chunk.last_position_at;
    ++tally.chunks;
    tally.ages.Add(age);
    tally.oldest_ns = std::max(tally.oldest_ns, age);
    if (!sampled) SampleWeights(index, &tally);
    sampled = true;
  }
}

// Whether a peer masters the chunk and has sent a position since it became master.
bool DivergenceSampler::Counts(const Chunk& chunk) const {
  return chunk.state == ChunkState::kWorker && chunk.number > 0 && !chunk.awaiting_master &&
         chunk.owner < index_.size() && index_[chunk.owner] < nodes_.size();
}

void DivergenceSampler::SampleWeights(uint32_t index, Tally* tally) {
  const auto room = static_cast<uint32_t>(copies_.bytes() / 2);
  const int64_t count = executor_.arrays().floats_of(index);
  std::byte* to = copies_.get<std::byte>();
  for (const ChunkOpKind kind : {ChunkOpKind::kRead, ChunkOpKind::kReturn}) {
    ChunkOp op;
    op.kind = kind;
    op.chunk = index;
    op.out = std::exchange(to, to + room);
    op.out_bytes = room;
    executor_.Run({&op, 1});
  }
  const auto* const weights = copies_.get<float>();
  AddDistance(weights, weights + room / sizeof(float), count, &tally->squares, &tally->largest);
  tally->sampled += static_cast<uint64_t>(count);
}

void DivergenceSampler::Tally::Add(const Tally& other) {
  chunks += other.chunks;
  sampled += other.sampled;
  oldest_ns = std::max(oldest_ns, other.oldest_ns);
  squares += other.squares;
  largest = std::max(largest, other.largest);
  ages += other.ages;
}

void DivergenceSampler::End(int64_t now_ns) {
  ++rounds_;
  step_ = 0;
  // The iterations of all nodes may decrease at a change of view.
  const uint64_t iterations = exchange_.global_iterations();
  const uint64_t done = iterations - std::min(iterations, begin_iterations_);
  const double rate =
      now_ns > begin_ns_ ? static_cast<double>(done) / static_cast<double>(now_ns - begin_ns_) : 0;
  begin_ns_ = now_ns;
  begin_iterations_ = iterations;
  Tally all;
  DurationHistogram all_round_trips;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const DurationHistogram until_now = exchange_.metrics().peer(nodes_[i]).round_trip;
    DurationHistogram since = until_now;
    since -= round_trips_[i];
    round_trips_[i] = until_now;
    peers_[i] = Conclude(tallies_[i], since, rate);
    all.Add(tallies_[i]);
    all_round_trips += since;
    tallies_[i] = Tally();
  }
  all_ = Conclude(all, all_round_trips, rate);
}

Divergence DivergenceSampler::Conclude(const Tally& tally, const DurationHistogram& round_trip,
                                       double iterations_per_ns) const {
  Divergence found;
  found.rounds = rounds_;
  found.chunks = tally.chunks;
  // The middle of a histogram bucket may exceed all its values.
  found.age_p50_ns = std::min(tally.ages.Quantile(0.5), tally.oldest_ns);
  found.age_max_ns = tally.oldest_ns;
  found.age_iterations = static_cast<double>(found.age_p50_ns) * iterations_per_ns;
  found.sampled = tally.sampled;
  if (tally.sampled > 0) {
    found.distance_rms = std::sqrt(tally.squares / static_cast<double>(tally.sampled));
  }
  found.distance_max = tally.largest;
  found.answered = round_trip.count();
  found.round_trip_p50_ns = round_trip.Quantile(0.5);
  found.round_trip_p99_ns = round_trip.Quantile(0.99);
  return found;
}

}  // namespace millrace::inline segment
