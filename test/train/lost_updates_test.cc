// Solvers and exchanges update one array concurrently; every update takes effect exactly once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/threads/range_lock.h"
#include "exchange/kernels/host_executor.h"
#include "exchange/kernels/host_payload.h"
#include "solver/update_rule.h"
#include "test/exchange/replica.h"
#include "test/support/free_port.h"
#include "test/train/train_support.h"
#include "test/weights/shm_support.h"

namespace millrace {
namespace {

using test::kAllCodecs;
using test::Replica;

// Solvers with the program's own update, on whole numbers: each pass adds `step` to every weight.
// The solvers own disjoint weights, so they cannot overwrite each other's updates.
class WholeSolvers {
 public:
  static constexpr int kSolvers = 2;

  WholeSolvers(float* weights, int64_t size, float step, RangeLock* locks)
      : weights_(weights), gradients_(size, -1), step_(step) {
    std::vector<UpdateParam> params[kSolvers];
    for (int64_t begin = 0, i = 0; begin < size; begin += kPiece, ++i) {
      const int64_t count = std::min(kPiece, size - begin);
      params[i % kSolvers].push_back({"p", {static_cast<int>(count)}, begin, count, 1, 1});
    }
    caffe::SolverParameter param;
    param.set_type("SGD");
    param.set_momentum(0);
    for (size_t solver = 0; solver < kSolvers; ++solver) {
      rules_[solver] = UpdateRuleRegistry::Get().Create(param, params[solver], size);
      threads_.emplace_back([this, solver, locks] { Solve(solver, locks); });
    }
    while (passes_ < 2 * kSolvers) std::this_thread::yield();
  }
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  // Total growth of a weight.
  double Grown(int64_t weight) const {
    return double{step_} * static_cast<double>(own_passes_[weight / kPiece % kSolvers]);
  }

 private:
  static constexpr int64_t kPiece = 128;

  void Solve(size_t solver, RangeLock* locks) {
    UpdateLock holder(locks);
    rules_[solver]->LockWith(&holder);
    for (; !stop_ && own_passes_[solver] < kMaxPasses; ++passes_, ++own_passes_[solver]) {
      rules_[solver]->Apply(step_, false, gradients_.data(), weights_);
    }
  }

  static constexpr int64_t kMaxPasses = 1 << 21;  // floats are inexact above 2^24
  float* const weights_;
  const std::vector<float> gradients_;
  const float step_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> passes_{0};
  std::atomic<int64_t> own_passes_[kSolvers] = {};
  std::unique_ptr<UpdateRule> rules_[kSolvers];
  std::vector<std::thread> threads_;
};

// Retries one operation until no solver blocks it.
ChunkOp RunUntilDone(ChunkExecutor* executor, const ChunkOp& op) {
  for (;;) {
    ChunkOp tried = op;
    executor->Run({&tried, 1});
    if (!(tried.result & kBusy)) return tried;
    std::this_thread::yield();
  }
}

// Worker with concurrent solvers: positions add another node's units, diffs take the solvers'
// units. At the end the master has all units of both, once each.
TEST(LostUpdates, LosesAndReversesNothingWhileSolversWrite) {
  constexpr int64_t kSize = 1000, kChunk = 350;
  constexpr int kSweeps = 500;
  constexpr float kRemote = 1024;
  for (const Codec codec : {Codec::kFloat32, Codec::kBfloat16, Codec::kSparse}) {
    Replica worker(kSize, kChunk);
    RangeLock locks(worker.arrays.weights);
    const auto executor = MakeHostExecutor(worker.arrays, {codec, 2}, {}, BestSimd(), &locks);
    std::vector<float> master(kSize);
    std::vector<std::byte> out(MaxPayloadBytes(kChunk));
    const auto sweep = [&](float remote, Codec by) {
      bool taken = false;
      for (uint32_t chunk = 0; chunk < worker.arrays.chunks(); ++chunk) {
        const int64_t count = worker.arrays.floats_of(chunk);
        float* const own = &master[chunk * kChunk];
        for (int64_t i = 0; i < count; ++i) own[i] += remote;
        const std::vector<float> position(own, own + count);
        ChunkOp op{.kind = ChunkOpKind::kExchange, .acknowledged = true, .take = true};
        op.in = reinterpret_cast<const std::byte*>(position.data());
        op.in_bytes = static_cast<uint32_t>(4 * count);
        op.codec = by;
        op.chunk = chunk;
        op.out = out.data();
        op.out_bytes = static_cast<uint32_t>(out.size());
        op = RunUntilDone(executor.get(), op);
        if (!(op.result & kNonZero)) continue;
        taken = true;
        const float* const d = worker.arrays.pending + chunk * kChunk;
        for (int64_t i = 0; i < count; ++i) own[i] += d[i];
      }
      return taken;
    };
    WholeSolvers solvers(worker.arrays.weights, kSize, 1, &locks);
    for (int i = 0; i < kSweeps; ++i) sweep(kRemote, codec);
    solvers.Stop();
    while (sweep(0, Codec::kFloat32)) {
    }
    int64_t wrong = 0;
    for (int64_t i = 0; i < kSize; ++i) wrong += master[i] != solvers.Grown(i) + kSweeps * kRemote;
    EXPECT_EQ(wrong, 0) << "weights lost or reversed updates, codec " << static_cast<int>(codec);
  }
}

// Master with concurrent solvers: it merges complete diffs of every codec.
TEST(LostUpdates, LosesNoMergeAndNoUpdateWhileSolversWrite) {
  constexpr int64_t kSize = 1000, kChunk = 350;
  constexpr int kSweeps = 500;
  for (const Codec codec : kAllCodecs) {
    Replica master(kSize, kChunk);
    RangeLock locks(master.arrays.weights);
    const auto executor = MakeHostExecutor(master.arrays, {codec, 2}, {}, BestSimd(), &locks);
    // With a largest value of 127, int8 has a scale of 1.
    const float unit = 127;
    WholeSolvers solvers(master.arrays.weights, kSize, 1, &locks);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (uint32_t chunk = 0; chunk < master.arrays.chunks(); ++chunk) {
        const int64_t count = master.arrays.floats_of(chunk);
        const std::vector<float> units(count, unit);
        std::vector<std::byte> payload(MaxPayloadBytes(count));
        const Encoded encoded = EncodePayload(codec, units.data(), count, 1, payload.data(),
                                              static_cast<uint32_t>(payload.size()), BestSimd());
        ChunkOp op{.kind = ChunkOpKind::kMerge, .codec = encoded.codec, .chunk = chunk};
        op.in = payload.data();
        op.in_bytes = encoded.bytes;
        EXPECT_EQ(RunUntilDone(executor.get(), op).result, 0);
      }
    }
    solvers.Stop();
    int64_t wrong = 0;
    for (int64_t i = 0; i < kSize; ++i) {
      wrong += master.arrays.weights[i] != solvers.Grown(i) + double{unit} * kSweeps;
    }
    EXPECT_EQ(wrong, 0) << "weights lost updates, codec " << static_cast<int>(codec);
  }
}

// Two exchanges on one array, as on a node between two segments, with concurrent solvers.
TEST(LostUpdates, LosesNothingToTheExecutorOfAnotherSegment) {
  constexpr int64_t kSize = 1000, kChunk = 350;
  constexpr int kSweeps = 500;
  Replica first(kSize, kChunk);
  std::vector<float> base(kSize), pending(kSize);
  ReplicaArrays second = first.arrays;
  second.base = base.data();
  second.pending = pending.data();
  RangeLock locks(first.arrays.weights);
  WholeSolvers solvers(first.arrays.weights, kSize, 1, &locks);
  const auto merge = [&](const ReplicaArrays& arrays) {
    const auto executor = MakeHostExecutor(arrays, {}, {}, BestSimd(), &locks);
    const std::vector<float> ones(kChunk, 1.0f);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (uint32_t chunk = 0; chunk < arrays.chunks(); ++chunk) {
        ChunkOp op{.kind = ChunkOpKind::kMerge, .chunk = chunk};
        op.in = reinterpret_cast<const std::byte*>(ones.data());
        op.in_bytes = static_cast<uint32_t>(4 * arrays.floats_of(chunk));
        RunUntilDone(executor.get(), op);
      }
    }
  };
  std::thread other([&] { merge(second); });
  merge(first.arrays);
  other.join();
  solvers.Stop();
  int64_t wrong = 0;
  for (int64_t i = 0; i < kSize; ++i) {
    wrong += first.arrays.weights[i] != solvers.Grown(i) + 2 * kSweeps;
  }
  EXPECT_EQ(wrong, 0);
}

// The solvers of a run and its segment hold the locks of the array itself. The test verifies this
// in the lock table, which is in shared memory here.
TEST(LostUpdates, ARunLocksWithItsSolversAndItsSegment) {
  test::Workspace work;
  test::ShmName name;
  TrainOptions options = test::WithSolvers(2);
  options.shm = name;
  options.topology = work / "cluster.prototxt";
  options.node = "a";
  test::WriteFile(options.topology,
                  StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                         " node { name: 'b' address: '127.0.0.2' }",
                         " segment { name: 's' transport: 'udp' port: ", test::FreePort(), " }"));
  std::atomic<bool> ended{false};
  int file = -1;
  std::thread looker([&] {
    // The run removes the name at its end; the open descriptor keeps the file.
    while (file < 0 && !ended) file = open(name.path().c_str(), O_RDONLY | O_CLOEXEC);
  });
  try {
    test::RunNamed(work, "run", test::Workspace::Solver(60), options);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  ended = true;
  looker.join();
  ASSERT_GE(file, 0);
  const auto number = [&](size_t offset) {
    uint32_t value = 0;
    EXPECT_EQ(pread(file, &value, sizeof(value), static_cast<off_t>(offset)),
              static_cast<ssize_t>(sizeof(value)));
    return value;
  };
  EXPECT_EQ(number(offsetof(ShmHeader, ranges.shared_end)), 2u);
  EXPECT_EQ(number(offsetof(ShmHeader, ranges.exclusive_end)), 1u);
  close(file);
}

}  // namespace
}  // namespace millrace
