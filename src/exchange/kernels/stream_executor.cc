#include "exchange/kernels/stream_executor.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/threads/cache_line.h"
#include "exchange/kernels/sparse_choice.h"

namespace millrace::inline exchange {
namespace {

StreamLimits Checked(const StreamLimits& limits, const ReplicaArrays& arrays,
                     const std::string& name) {
  if (arrays.chunk_floats > kMaxKernelFloats) {
    throw Error(name, ": chunk_floats is ", arrays.chunk_floats, ": expected at most ",
                kMaxKernelFloats, " in the memory of a device");
  }
  CHECK_GT(arrays.chunk_floats, 0);
  CHECK_GE(limits.launch_ops, 1u);
  CHECK_GE(limits.launches, 1u);
  StreamLimits checked = limits;
  // The staging area always holds the input and output of one operation.
  const size_t least = 2 * WholeCacheLines(MaxEncodedBytes(arrays.chunk_floats));
  checked.stage_bytes =
      static_cast<uint32_t>(std::max<size_t>(WholeCacheLines(limits.stage_bytes), least));
  return checked;
}

size_t OpsBytes(const StreamLimits& limits) {
  return WholeCacheLines(sizeof(KernelOp) * limits.launch_ops);
}
size_t ChainsBytes(const StreamLimits& limits) {
  return WholeCacheLines(sizeof(uint32_t) * limits.launch_ops);
}
size_t LaunchBytes(const StreamLimits& limits) {
  return OpsBytes(limits) + ChainsBytes(limits) + limits.stage_bytes;
}

bool ReadsPayload(ChunkOpKind kind) {
  return kind == ChunkOpKind::kExchange || kind == ChunkOpKind::kMerge ||
         kind == ChunkOpKind::kLoad;
}

bool Takes(const ChunkOp& op) {
  return op.kind == ChunkOpKind::kTake || (op.kind == ChunkOpKind::kExchange && op.take);
}

}  // namespace

StreamExecutor::StreamExecutor(Device& device, std::unique_ptr<KernelLauncher> launcher,
                               const ReplicaArrays& arrays, const CodecConfig& codec,
                               const StreamLimits& limits, WriteOrder* order)
    : device_(device),
      launcher_(std::move(launcher)),
      arrays_(arrays),
      codec_(codec),
      limits_(Checked(limits, arrays, device.name())),
      order_(order),
      memory_(device.staging(), limits_.launches * LaunchBytes(limits_)),
      ring_(limits_.launches),
      last_(static_cast<size_t>(arrays.chunks())),
      rounds_(codec.choice == SparseChoice::kRandom ? last_.size() : 0),
      queue_(device.MakeQueue(QueuePriority::kLow)) {
  std::byte* at = memory_.get<std::byte>();
  for (Launch& launch : ring_) {
    launch.ops = reinterpret_cast<KernelOp*>(at);
    launch.chains = reinterpret_cast<uint32_t*>(at + OpsBytes(limits_));
    launch.stage = at + OpsBytes(limits_) + ChainsBytes(limits_);
    at += LaunchBytes(limits_);
    launch.asked.reserve(limits_.launch_ops);
    launch.copied_out.reserve(limits_.launch_ops);
    launch.end = queue_->Record();  // so that the queue has as many events as will be needed
  }
}

template <typename Use>
auto StreamExecutor::Guard(Use use) {
  try {
    return use();
  } catch (const Error& error) {
    failure_ = error.what();
    // A device that has failed accesses none of this memory any more. One that has refused this
    // call alone still runs the kernels that were launched before.
    try {
      queue_->Synchronize();
    } catch (const Error&) {
    }
    concluded_ = launched_;
    throw;
  }
}

bool StreamExecutor::RegisterMemory(std::span<const std::byte> memory) {
  std::unique_ptr<MemoryMapping> mapping = device_.Map(memory);
  if (!mapping) return false;
  shared_.push_back({memory.data(), memory.data() + memory.size(), std::move(mapping)});
  return true;
}

const StreamExecutor::Shared* StreamExecutor::Find(const std::byte* begin, size_t bytes) const {
  for (const Shared& each : shared_) {
    if (begin >= each.begin && begin + bytes <= each.end) return &each;
  }
  return nullptr;
}

uint32_t StreamExecutor::InBytes(const ChunkOp& op) {
  return ReadsPayload(op.kind) ? op.in_bytes : 0;
}

// Bytes that the operation may write, 0 if none. Checks that `out` has this capacity.
uint32_t StreamExecutor::OutBytes(const ChunkOp& op) const {
  const int64_t floats = arrays_.floats_of(op.chunk);
  uint32_t bytes = 0;
  if (Takes(op) || op.kind == ChunkOpKind::kEncodePending) {
    if (op.out == nullptr) {
      CHECK(op.codec == Codec::kFloat32);
      return 0;
    }
    // A sparse diff may fall back to a dense one.
    bytes = MinPayloadBytes(op.codec == Codec::kSparse ? Codec::kFloat32 : op.codec, floats);
    if (op.codec == Codec::kSparse) bytes = std::max(bytes, SparseBitmapBytes(floats));
  } else if (op.kind == ChunkOpKind::kMergeOwn && op.out == nullptr) {
    return 0;
  } else if (op.kind == ChunkOpKind::kRead || op.kind == ChunkOpKind::kReturn ||
             op.kind == ChunkOpKind::kMergeOwn) {
    bytes = MinPayloadBytes(Codec::kFloat32, floats);
  }
  CHECK_GE(op.out_bytes, bytes);
  return bytes;
}

void StreamExecutor::Run(std::span<ChunkOp> ops) {
  Start(ops);
  Finish();
}

void StreamExecutor::Start(std::span<ChunkOp> ops) {
  ThrowIfFailed();
  for (ChunkOp& op : ops) Add(&op);
  if (open().size() > 0) Enqueue();
}

// Kernels validate payloads. A payload longer than any valid one is not copied.
void StreamExecutor::Add(ChunkOp* op) {
  CHECK_LT(int64_t{op->chunk}, arrays_.chunks());
  const uint32_t count = static_cast<uint32_t>(arrays_.floats_of(op->chunk));
  const uint32_t out_bytes = OutBytes(*op);
  uint32_t in_bytes = InBytes(*op);
  if (in_bytes > MaxEncodedBytes(count)) in_bytes = 0;  // empty: the kernel reports kMalformed
  const Shared* const in = in_bytes > 0 ? Find(op->in, in_bytes) : nullptr;
  const Shared* const out = out_bytes > 0 ? Find(op->out, out_bytes) : nullptr;
  const size_t copied =
      (in ? 0 : WholeCacheLines(in_bytes)) + (out ? 0 : WholeCacheLines(out_bytes));
  if (open().size() == limits_.launch_ops || open().staged_bytes + copied > limits_.stage_bytes) {
    Enqueue();
  }
  Launch& launch = open();
  const uint32_t index = launch.size();
  KernelOp& to = launch.ops[index];
  to = {};
  to.begin = int64_t{op->chunk} * arrays_.chunk_floats;
  to.count = count;
  to.in_bytes = in_bytes;
  to.staleness = op->staleness;
  to.share = op->share;
  if (Takes(*op) && op->codec == Codec::kSparse && !rounds_.empty()) {
    to.seed = ChoiceSeed(op->chunk, rounds_[op->chunk]++);
  }
  to.kind = op->kind;
  to.codec = op->codec;
  to.acknowledged = op->acknowledged;
  to.take = op->take;
  to.drop_rest = op->drop_rest;
  to.scale = op->scale;
  to.out_codec = op->out_codec;
  to.out_bytes = op->out_bytes;
  if (in) {
    to.in = in->mapping->address() + (op->in - in->begin);
  } else if (in_bytes > 0) {
    std::byte* const stage = Stage(&launch, in_bytes);
    std::memcpy(stage, op->in, in_bytes);
    to.in = stage;
    copied_bytes_ += in_bytes;
  }
  if (out) {
    to.out = out->mapping->address() + (op->out - out->begin);
  } else if (out_bytes > 0) {
    to.out = Stage(&launch, out_bytes);
  }
  LastOp& last = last_[op->chunk];
  if (launch.size() > 0 && last.launch == launched_ + 1) {
    launch.ops[last.index].next = index;
  } else {
    launch.chains[launch.chain_count++] = index;
  }
  last = {launched_ + 1, index};
  launch.writes_weights |= WritesWeights(op->kind);
  launch.asked.push_back(op);
  launch.copied_out.push_back(out_bytes > 0 && !out);
}

std::byte* StreamExecutor::Stage(Launch* launch, uint32_t bytes) {
  std::byte* const at = launch->stage + launch->staged_bytes;
  launch->staged_bytes += static_cast<uint32_t>(WholeCacheLines(bytes));
  return at;
}

// Launches the open batch and makes a ring entry available for the next one.
void StreamExecutor::Enqueue() {
  Launch& launch = open();
  KernelBatch batch;
  batch.ops = launch.ops;
  batch.chains = launch.chains;
  batch.chain_count = launch.chain_count;
  batch.weights = arrays_.weights;
  batch.base = arrays_.base;
  batch.pending = arrays_.pending;
  batch.rule_state = arrays_.rule_state;
  batch.state_stride = arrays_.size;
  batch.codec = codec_;
  batch.stage_bytes = StageBytes(arrays_.chunk_floats);
  ++launched_;
  Guard([&] {
    const auto launch_kernel = [&] { launcher_->Launch(batch, *queue_); };
    if (order_ == nullptr) {
      launch_kernel();
    } else if (launch.writes_weights) {
      order_->Write(*queue_, launch_kernel);
    } else {
      order_->Read(*queue_, launch_kernel);
    }
    launch.end = Event();  // the queue uses it again
    launch.end = queue_->Record();
  });
  if (launched_ - concluded_ == ring_.size()) FinishOldest();
}

void StreamExecutor::FinishOldest() {
  Launch& oldest = ring_[concluded_ % ring_.size()];
  Guard([&] { oldest.end.Synchronize(); });
  Conclude(&oldest);
}

// Copies the kernel's results to the caller's operations.
void StreamExecutor::Conclude(Launch* launch) {
  for (uint32_t i = 0; i < launch->size(); ++i) {
    const KernelOp& from = launch->ops[i];
    ChunkOp* const op = launch->asked[i];
    op->result = from.result;
    op->out_codec = from.out_codec;
    op->scale = from.scale;
    op->out_bytes = from.out_bytes;
    if (launch->copied_out[i] && from.result != kMalformed && from.result != kNonFinite) {
      std::memcpy(op->out, from.out, from.out_bytes);
      copied_bytes_ += from.out_bytes;
    }
  }
  ++concluded_;
  launch->asked.clear();
  launch->copied_out.clear();
  launch->chain_count = launch->staged_bytes = 0;
  launch->writes_weights = false;
}

void StreamExecutor::Finish() {
  ThrowIfFailed();
  while (concluded_ < launched_) FinishOldest();
}

void StreamExecutor::ThrowIfFailed() const {
  if (!failure_.empty()) throw DeviceError(failure_);
}

}  // namespace millrace::inline exchange
