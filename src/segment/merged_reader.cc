#include "segment/merged_reader.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace millrace::inline segment {
namespace {

// Maximum chunks visited per step: a chunk that needs no copy costs little, but large models have
// many.
constexpr uint32_t kMaxRows = 1 << 14;

size_t BatchOf(const ChunkExecutor& executor) {
  const size_t one = MaxPayloadBytes(executor.arrays().chunk_floats);
  return std::clamp<size_t>(MergedReader::kPortionBytes / one, 1, executor.batch_ops());
}

}  // namespace

MergedReader::MergedReader(const Exchange* exchange, ChunkExecutor* executor)
    : exchange_(*exchange),
      executor_(*executor),
      staging_(executor->payload_memory(),
               BatchOf(*executor) * MaxPayloadBytes(executor->arrays().chunk_floats)) {
  ops_.reserve(BatchOf(*executor));
  executor_.RegisterMemory({staging_.get<std::byte>(), staging_.bytes()});
}

void MergedReader::Begin(float* to) {
  std::lock_guard lock(mutex_);
  whole_ = false;
  if (closed_) return;
  to_ = to;
  next_ = 0;
}

bool MergedReader::Wait(int ms) {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return to_ == nullptr; });
}

bool MergedReader::End() {
  std::lock_guard lock(mutex_);
  to_ = nullptr;
  return whole_;
}

void MergedReader::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  to_ = nullptr;
  ended_.notify_all();
}

bool MergedReader::Step() {
  if (to_.load(std::memory_order_relaxed) == nullptr) return false;
  std::lock_guard lock(mutex_);
  if (to_ == nullptr) return false;
  const uint32_t chunks = exchange_.table().size();
  const size_t chunk_bytes = MaxPayloadBytes(executor_.arrays().chunk_floats);
  size_t copied = 0;
  for (uint32_t rows = 0; next_ < chunks && rows < kMaxRows && copied < kPortionBytes; ++next_) {
    ++rows;
    if (!HasMerged(next_)) continue;
    ChunkOp& op = ops_.emplace_back();
    op.kind = ChunkOpKind::kReturn;
    op.chunk = next_;
    op.out = staging_.get<std::byte>() + (ops_.size() - 1) * chunk_bytes;
    op.out_bytes = static_cast<uint32_t>(chunk_bytes);
    copied += chunk_bytes;
    if (ops_.size() == ops_.capacity()) CopyBatch();
  }
  CopyBatch();
  if (next_ < chunks) return true;
  to_ = nullptr;
  whole_ = true;
  ended_.notify_all();
  return false;
}

// Whether `base` and `pending` hold a position of the chunk, whose master has other weights than
// solvers. A chunk that is being demoted was this node's until now; its base may not be set yet.
bool MergedReader::HasMerged(uint32_t index) const {
  const Chunk& chunk = exchange_.table().chunks[index];
  const bool merges_own = exchange_.merges_own() && exchange_.view().members.size() > 1;
  return (chunk.state != ChunkState::kMaster || merges_own) && chunk.number > 0 && !chunk.demoting;
}

void MergedReader::CopyBatch() {
  if (ops_.empty()) return;
  executor_.Run(ops_);
  const ReplicaArrays& arrays = executor_.arrays();
  float* const to = to_;
  for (const ChunkOp& op : ops_) {
    std::memcpy(to + int64_t{op.chunk} * arrays.chunk_floats, op.out,
                sizeof(float) * static_cast<size_t>(arrays.floats_of(op.chunk)));
  }
  ops_.clear();
}

}  // namespace millrace::inline segment
