// The host executor's exchange, merge and codecs against hand-written loops
// (bounds.h), on one thread, in cache and out of it.
//
// In each repeat the executor and the bound do the same work on the same arrays,
// one after the other, the next repeat the other way round; both must leave the
// same weights, base, pending and frames. The ratio is the median of those within
// a repeat (--best: that of the best). GB/s are of the bytes that the work names: weights and base
// 8 an element when they are changed, pending 4, and the frames. Prints one line of JSON.
//
//   build/bench/exchange_bench --repeats=15
#include <gflags/gflags.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/simd.h"
#include "base/threads/range_lock.h"
#include "bench/exchange_bench/bounds.h"
#include "bench/measure.h"
#include "exchange/kernels/host_executor.h"
#include "millrace/device.h"

DEFINE_int32(repeats, 15, "measurements of each; medians are printed");
DEFINE_double(seconds, 0.02, "how long a measurement takes at least");
DEFINE_string(only, "", "measure the works whose names begin like this");
DEFINE_bool(locks, true, "the executor keeps out of solvers' way, as in a program");
DEFINE_bool(avx2, false, "the executor uses no wider vectors");
DEFINE_bool(best, false, "print the best instead of medians: for a machine that others use");

namespace exchange_bench {
namespace {

using namespace millrace;
using bench::Median;

constexpr int64_t kInCache = 1700 << 10;  // bytes of weights, base, pending and frames
constexpr int64_t kInMemory = 240 << 20;

// A worker's or a master's memory and one operation for each chunk.
class Stage {
 public:
  explicit Stage(int64_t bytes)
      : chunks_(bytes / (4 * kFrame)),
        frames_(chunks_),
        steps_(kSteps),
        weights_(HostMemory(), 4 * size()),
        others_(HostMemory(), 8 * size()),
        locks_(weights_.get<float>()),
        solvers_{RangeLock::Shared(&locks_), RangeLock::Shared(&locks_)} {
    Rng rng(1, {});
    for (float& step : steps_) step = rng.Gaussian();
    for (const Buffer* each : {&weights_, &others_}) {
      HostMemory().Fill(each->get(), 0, each->bytes());
    }
    arrays_ = {weights_.get<float>(),
               others_.get<float>(),
               others_.get<float>() + size(),
               nullptr,
               size(),
               kChunk};
    executor_ =
        MakeHostExecutor(arrays_, {Codec::kSparse, kThreshold}, {},
                         FLAGS_avx2 ? Simd::kAvx2 : BestSimd(), FLAGS_locks ? &locks_ : nullptr);
  }
  int64_t size() const { return chunks_ * kChunk; }
  const ReplicaArrays& arrays() const { return arrays_; }
  Frames& frames() { return frames_; }

  // Fresh progress everywhere, and none that was there before: diffs arrive once,
  // so no branch predictor knows by heart which elements are large.
  void Progress() {
    first_step_ += 7919;
    for (int64_t i = 0; i < size(); ++i) {
      arrays_.base[i] = 1;
      arrays_.weights[i] = 1 + steps_[(first_step_ + i) % kSteps];
    }
  }
  // The next progress is the last one again.
  void RepeatProgress() { first_step_ -= 7919; }
  void FillFrames() {
    for (int64_t i = 0; i < chunks_; ++i) {
      std::memcpy(frames_.at(i), steps_.data() + i % (kSteps - kChunk), kFrame);
      frames_.used[i] = kFrame;
    }
  }
  void Prepare(const ChunkOp& op) {
    ops_.assign(chunks_, op);
    for (int64_t i = 0; i < chunks_; ++i) {
      ops_[i].chunk = static_cast<uint32_t>(i);
      if (op.kind == ChunkOpKind::kTake) {
        ops_[i].out = frames_.at(i);
        ops_[i].out_bytes = kFrame;
      } else {
        ops_[i].in = frames_.at(i);
        ops_[i].in_bytes = frames_.used[i];
      }
    }
  }
  void Run() { executor_->Run(ops_); }
  // Into the frames, what Run() tells of them.
  void NoteUsed() {
    for (int64_t i = 0; i < chunks_; ++i) {
      if (ops_[i].out != nullptr) frames_.used[i] = ops_[i].out_bytes;
    }
  }
  // The bytes of all frames that the operations wrote or read.
  int64_t FrameBytes() const {
    int64_t bytes = 0;
    for (const ChunkOp& op : ops_) bytes += op.out != nullptr ? op.out_bytes : op.in_bytes;
    return bytes;
  }
  bool Refused() const {
    return std::any_of(ops_.begin(), ops_.end(),
                       [](const ChunkOp& op) { return (op.result & kRefused) != 0; });
  }
  // A sum over all that was computed, which changes with every bit of it.
  uint64_t Digest() const {
    uint64_t digest = 0;
    const auto mix = [&digest](const void* data, int64_t words) {
      for (int64_t i = 0; i < words; ++i) {
        uint32_t word;
        std::memcpy(&word, static_cast<const char*>(data) + 4 * i, 4);
        digest = (digest ^ word) * 0x9e3779b97f4a7c15u + (digest >> 29);
      }
    };
    mix(weights_.get(), size());
    mix(others_.get(), 2 * size());
    for (int64_t i = 0; i < chunks_; ++i) {
      std::array<std::byte, kFrame> frame{};  // what is behind the payload says nothing
      std::memcpy(frame.data(), frames_.at(i), frames_.used[i]);
      mix(frame.data(), kFrame / 4);
    }
    return digest;
  }

 private:
  static constexpr int64_t kSteps = 1 << 20;
  int64_t chunks_, first_step_ = 0;
  Frames frames_;
  std::vector<float> steps_;
  // In two blocks, as segments have them: weights; base and pending.
  Buffer weights_, others_;
  RangeLock locks_;
  const RangeLock::Shared solvers_[2];  // that write nothing now
  std::vector<ChunkOp> ops_;
  ReplicaArrays arrays_;
  std::unique_ptr<ChunkExecutor> executor_;
};

// One line of the table.
struct Work {
  std::string name;
  ChunkOp op;
  int64_t array_bytes;  // an element, without frames
  std::function<void(Stage*)> bound;
};

std::vector<Work> Works() {
  std::vector<Work> works;
  const ChunkOp exchange{.kind = ChunkOpKind::kExchange, .acknowledged = true, .take = true};
  works.push_back({"exchange float32", exchange, 20,
                   [](Stage* stage) { BoundExchange(stage->arrays(), &stage->frames()); }});
  const std::pair<const char*, Codec> codecs[] = {{"float32", Codec::kFloat32},
                                                  {"bfloat16", Codec::kBfloat16},
                                                  {"int8", Codec::kInt8},
                                                  {"sparse 10 %", Codec::kSparse}};
  for (const auto& [name, codec] : codecs) {
    works.push_back(
        {std::string("take ") + name,
         {.kind = ChunkOpKind::kTake, .codec = codec},
         20,
         [codec = codec](Stage* stage) { BoundTake(stage->arrays(), codec, &stage->frames()); }});
  }
  for (const auto& [name, codec] : codecs) {
    works.push_back(
        {std::string("merge ") + name,
         {.kind = ChunkOpKind::kMerge, .codec = codec},
         8,
         [codec = codec](Stage* stage) { BoundMerge(stage->arrays(), codec, &stage->frames()); }});
  }
  return works;
}

// Everything as it is before the work; a merge's frames hold a real diff.
void Reset(const Work& work, Stage* stage) {
  stage->Progress();
  stage->FillFrames();
  if (work.op.kind == ChunkOpKind::kMerge)
    BoundTake(stage->arrays(), work.op.codec, &stage->frames());
  stage->Prepare(work.op);
}

// Seconds of one execution; between executions there is fresh progress.
template <typename Body>
double Seconds(const Work& work, Stage* stage, Body body) {
  using std::chrono::steady_clock;
  steady_clock::duration spent{};
  int64_t runs = 0;
  do {
    if (work.op.kind == ChunkOpKind::kMerge) {
      Reset(work, stage);
    } else {
      stage->Progress();
      stage->Prepare(work.op);
    }
    const auto start = steady_clock::now();
    body();
    spent += steady_clock::now() - start;
    ++runs;
  } while (std::chrono::duration<double>(spent).count() < FLAGS_seconds);
  return std::chrono::duration<double>(spent).count() / static_cast<double>(runs);
}

bool SameResult(const Work& work, Stage* stage) {
  Reset(work, stage);
  stage->Run();
  if (stage->Refused()) return false;
  stage->NoteUsed();
  const uint64_t ours = stage->Digest();
  stage->RepeatProgress();
  Reset(work, stage);
  work.bound(stage);
  return ours == stage->Digest();
}

double Summary(const std::vector<double>& rates) {
  return FLAGS_best ? *std::max_element(rates.begin(), rates.end()) : Median(rates);
}

// One JSON member: GB/s of both and their ratio.
bool Measure(const Work& work, Stage* stage, const char* comma) {
  if (!SameResult(work, stage)) {
    fprintf(stderr, "exchange_bench: %s: the bound computes something else\n", work.name.c_str());
    return false;
  }
  Reset(work, stage);
  stage->Run();
  const auto bytes = static_cast<double>(work.array_bytes * stage->size() + stage->FrameBytes());
  Reset(work, stage);
  std::vector<double> ours(FLAGS_repeats), bound(FLAGS_repeats), ratios(FLAGS_repeats);
  for (int i = 0; i < FLAGS_repeats; ++i) {
    for (int turn = 0; turn < 2; ++turn) {
      if ((turn + i) % 2 == 0) {
        ours[i] = bytes / Seconds(work, stage, [&] { stage->Run(); }) / 1e9;
      } else {
        bound[i] = bytes / Seconds(work, stage, [&] { work.bound(stage); }) / 1e9;
      }
    }
    ratios[i] = ours[i] / bound[i];
  }
  printf("%s\"%s\": {\"gb_per_second\": %.2f, \"bound\": %.2f, \"ratio\": %.3f}", comma,
         work.name.c_str(), Summary(ours), Summary(bound),
         FLAGS_best ? Summary(ours) / Summary(bound) : Median(ratios));
  return true;
}

int Run() {
  if (!SimdSupported(Simd::kAvx2)) {
    fprintf(stderr, "exchange_bench: its bounds need AVX2\n");
    return 1;
  }
  const char* comma = "";
  printf("{");
  for (const auto& [place, bytes] : {std::pair{"cache", kInCache}, {"memory", kInMemory}}) {
    Stage stage(bytes);
    printf("%s\"%s\": {", comma, place);
    comma = "";
    for (const Work& work : Works()) {
      if (!work.name.starts_with(FLAGS_only)) continue;
      if (!Measure(work, &stage, comma)) return 1;
      comma = ", ";
    }
    comma = ", ";
    printf("}");
  }
  printf("}\n");
  return 0;
}

}  // namespace
}  // namespace exchange_bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return exchange_bench::Run();
}
