// Sums between GPUs by NCCL, against a table of functions that checks what it is given and computes
// in the memory of the fake runtime, which is the host's.
#if __has_include(<nccl.h>)
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "collective/nccl/cuda_nccl_group.h"
#include "device/cuda_queue.h"
#include "test/cuda/fake_cuda.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

struct Sum {
  float* values;
  size_t count;
  ncclRedOp_t op;
};

// Communicator of one member. A sum has its results when all members have enqueued it.
struct Communicator {
  int rank, size, gpu;
  std::string id;
  int pending;  // answers "in progress" before the last call is complete
  std::vector<Sum> sums;
};

struct FakeNccl {
  std::vector<std::string> wrong;
  std::vector<Communicator*> alive, joined;
  uint64_t calls = 0, fails_at = UINT64_MAX;
  int open_groups = 0, ids = 0, aborted = 0;
  ncclResult_t state = ncclSuccess;  // of every communicator
  size_t done = 0;                   // sums of all members

  void Require(bool holds, const std::string& what) {
    if (!holds) wrong.push_back(what);
  }
  bool Fails() { return calls++ == fails_at; }
};
FakeNccl fake;

Communicator& Of(ncclComm_t handle) { return *reinterpret_cast<Communicator*>(handle); }

// Adds what all members of the same group have enqueued.
void AddReady() {
  for (;;) {
    for (const Communicator* each : fake.joined) {
      if (each->sums.size() <= fake.done) return;
    }
    const Sum& first = fake.joined.front()->sums[fake.done];
    std::vector<float> sum(first.count);
    for (const Communicator* each : fake.joined) {
      const Sum& mine = each->sums[fake.done];
      fake.Require(mine.count == first.count && mine.op == first.op, "unequal sums");
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += mine.values[i];
    }
    for (float& value : sum) {
      if (first.op == ncclAvg) value /= static_cast<float>(fake.joined.size());
    }
    for (const Communicator* each : fake.joined) {
      std::copy(sum.begin(), sum.end(), each->sums[fake.done].values);
    }
    ++fake.done;
  }
}

const NcclApi& Api() {
  static const NcclApi api = [] {
    NcclApi api{};
    api.ncclGetVersion = [](int* version) {
      *version = NCCL_VERSION_CODE;
      return ncclSuccess;
    };
    api.ncclGetErrorString = [](ncclResult_t) { return "remote process exited"; };
    api.ncclGetLastError = [](ncclComm_t) { return "socket 3 is closed"; };
    api.ncclGetUniqueId = [](ncclUniqueId* id) {
      std::memset(id->internal, 0, sizeof(id->internal));
      std::memcpy(id->internal, "id", 2);
      ++fake.ids;
      return fake.Fails() ? ncclSystemError : ncclSuccess;
    };
    api.ncclCommInitRankConfig = [](ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
      fake.Require(fake.open_groups == 1, "joins outside of a group of calls");
      fake.Require(config->blocking == 0, "blocking");
      if (fake.Fails()) return ncclSystemError;
      auto* const made = new Communicator{rank, size, CurrentFakeGpu(), id.internal, 2, {}};
      fake.alive.push_back(made);
      fake.joined.push_back(made);
      *handle = reinterpret_cast<ncclComm_t>(made);
      return ncclInProgress;
    };
    api.ncclCommGetAsyncError = [](ncclComm_t handle, ncclResult_t* state) {
      fake.Require(fake.open_groups == 0, "asks within a group of calls");
      if (fake.Fails()) return ncclInternalError;
      *state = fake.state != ncclSuccess  ? fake.state
               : Of(handle).pending-- > 0 ? ncclInProgress
                                          : ncclSuccess;
      return ncclSuccess;
    };
    api.ncclCommAbort = [](ncclComm_t handle) {
      std::erase(fake.alive, &Of(handle));
      std::erase(fake.joined, &Of(handle));
      ++fake.aborted;
      delete &Of(handle);
      return ncclSuccess;
    };
    api.ncclAllReduce = [](const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t handle, cudaStream_t stream) {
      Communicator& mine = Of(handle);
      fake.Require(from == to, "not in place");
      fake.Require(type == ncclFloat32, "not floats");
      fake.Require(CurrentFakeGpu() == mine.gpu, "another GPU is selected");
      fake.Require(mine.pending <= 0, "a call before the last one is complete");
      const FakeCuda::Block* const block = FakeCuda::Get().Find(to, count * sizeof(float));
      fake.Require(block != nullptr && block->device == mine.gpu, "another GPU's memory");
      FakeCuda::Get().Enqueue(stream, "ncclAllReduce");
      if (fake.Fails()) return ncclUnhandledCudaError;
      mine.pending = 1;
      mine.sums.push_back({static_cast<float*>(to), count, op});
      AddReady();
      return ncclInProgress;
    };
    api.ncclGroupStart = [] {
      ++fake.open_groups;
      return fake.Fails() ? ncclInternalError : ncclSuccess;
    };
    api.ncclGroupEnd = [] {
      --fake.open_groups;
      return fake.Fails() ? ncclSystemError : ncclInProgress;
    };
    return api;
  }();
  return api;
}

class NcclGroup : public testing::Test {
 protected:
  NcclGroup() {
    FakeCuda::Get().Reset();
    fake = {};
    for (int i = 0; i < 2; ++i) {
      devices_.push_back(&DeviceRegistry::Get().Find(DeviceType::kCuda, i));
    }
  }
  ~NcclGroup() override {
    EXPECT_EQ(fake.wrong, std::vector<std::string>());
    EXPECT_TRUE(fake.alive.empty());
  }
  std::vector<Device*> devices_;
};

// The other processes of a run, as far as a group needs them.
class FakeBetween : public Collective {
 public:
  FakeBetween(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void Broadcast(std::span<std::byte> bytes, const std::function<void()>&) override {
    if (rank_ != 0) std::memcpy(bytes.data(), "of rank 0", 10);
    ++broadcasts;
  }
  void StartSum(std::span<float>, bool) override {}
  void Poll() override {
    if (fails) throw Error("rank 1 is lost");
  }
  void Wait(const std::function<void()>&) override {}
  int broadcasts = 0;
  bool fails = false;

 private:
  const int rank_, size_;
};

TEST_F(NcclGroup, SumsAndAverages) {
  for (const bool average : {false, true}) {
    DeviceGroup group = MakeNcclGroup(Api(), devices_, nullptr);
    ASSERT_EQ(group.size(), 2u);
    std::vector<Buffer> memory;
    std::vector<std::unique_ptr<Queue>> queues;
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(group[i]->rank(), i);
      EXPECT_EQ(group[i]->size(), 2);
      memory.emplace_back(devices_[i]->memory(), 10 * sizeof(float));
      queues.push_back(devices_[i]->MakeQueue(QueuePriority::kNormal));
      std::iota(memory[i].get<float>(), memory[i].get<float>() + 10, 100.0f * i);
    }
    for (int i = 0; i < 2; ++i) {
      float* const values = memory[i].get<float>();
      group[i]->Sum(queues[i].get(), {values + 4, 6}, average);
      group[i]->Sum(queues[i].get(), {values, 4}, average);
      group[i]->Check();
    }
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < 10; ++k) {
        const float sum = 2.0f * k + 100;
        EXPECT_EQ(memory[i].get<float>()[k], average ? sum / 2 : sum) << k;
      }
    }
    const std::vector<FakeCuda::Work> work = FakeCuda::Get().work();
    ASSERT_GE(work.size(), 4u);
    for (size_t k = 0; k < 4; ++k) {
      const FakeCuda::Work& each = work[work.size() - 4 + k];
      EXPECT_EQ(each.name, "ncclAllReduce");
      EXPECT_EQ(each.stream, CudaQueue::Of(*queues[k / 2]).stream());
    }
    fake.joined.clear();
    fake.done = 0;
  }
}

// Every process has as many members, in the order of the ranks, and joins with rank 0's id.
TEST_F(NcclGroup, SpansProcesses) {
  FakeBetween between(2, 3);
  const DeviceGroup group = MakeNcclGroup(Api(), devices_, &between);
  EXPECT_EQ(fake.ids, 0);
  EXPECT_EQ(between.broadcasts, 1);
  ASSERT_EQ(fake.alive.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(fake.alive[i]->rank, 4 + i);
    EXPECT_EQ(fake.alive[i]->size, 6);
    EXPECT_EQ(fake.alive[i]->gpu, i);
    EXPECT_EQ(fake.alive[i]->id, "of rank 0");
    EXPECT_EQ(group[i]->rank(), 4 + i);
  }
}

TEST_F(NcclGroup, EndsWhenAnotherProcessIsLostWhileItConnects) {
  FakeBetween between(0, 2);
  between.fails = true;
  EXPECT_EQ(ErrorOf([&] { MakeNcclGroup(Api(), devices_, &between); }), "rank 1 is lost");
  EXPECT_EQ(fake.ids, 1);
}

TEST_F(NcclGroup, NamesTheGpuWhenASumFails) {
  const DeviceGroup group = MakeNcclGroup(Api(), devices_, nullptr);
  fake.state = ncclRemoteError;
  EXPECT_EQ(
      ErrorOf([&] { group[1]->Check(); }),
      "cuda device 1: cannot sum with the other GPUs: NCCL: remote process exited: socket 3 is "
      "closed");
}

TEST_F(NcclGroup, EndsInOrderWhateverCallFails) {
  uint64_t calls = UINT64_MAX;
  for (uint64_t n = 0; n <= calls; ++n) {
    SCOPED_TRACE(n);
    fake = {};
    fake.fails_at = n;
    std::string error;
    try {
      const DeviceGroup group = MakeNcclGroup(Api(), devices_, nullptr);
      const Buffer memory(devices_[0]->memory(), 10 * sizeof(float));
      const auto queue = devices_[0]->MakeQueue(QueuePriority::kNormal);
      group[0]->Sum(queue.get(), {memory.get<float>(), 10}, true);
      if (fake.calls <= n) calls = n;
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    EXPECT_TRUE(fake.alive.empty());
    if (n < calls) {
      EXPECT_CONTAINS(error, "NCCL: ");
    }
  }
  EXPECT_GT(calls, 8u);
}

// What the group has not completed ends at once, so that queues can end.
TEST_F(NcclGroup, Aborts) {
  const DeviceGroup group = MakeNcclGroup(Api(), devices_, nullptr);
  group[0]->Abort();
  EXPECT_EQ(fake.aborted, 1);
  group[0]->Abort();
  EXPECT_EQ(fake.aborted, 1);
}

}  // namespace
}  // namespace millrace::test
#endif
