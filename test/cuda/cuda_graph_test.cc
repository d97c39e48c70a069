// Recorded work of a GPU's queue, on a fake runtime.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "device/cuda_queue.h"
#include "device/work_graph.h"
#include "test/cuda/fake_cuda.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

class CudaGraphs : public testing::Test {
 protected:
  CudaGraphs() { cuda_.Reset(); }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const FakeCuda::Work& work : cuda_.work()) names.push_back(work.name);
    return names;
  }

  FakeCuda& cuda_ = FakeCuda::Get();
  Device& gpu_ = DeviceRegistry::Get().Find(DeviceType::kCuda, 1);
  const GraphRecorders::Recorder record_ = GraphRecorders::Find(DeviceType::kCuda);
};

TEST_F(CudaGraphs, RunTheirWorkAsOftenAsTheyAreEnqueued) {
  const auto queue = gpu_.MakeQueue(QueuePriority::kNormal);
  const Buffer from(gpu_.memory(), 4), to(gpu_.memory(), 4);
  char* const in = from.get<char>();
  const char* const out = to.get<char>();
  std::string why;
  const auto graph = record_(
      *queue,
      [&] {
        queue->Copy(to.get(), from.get(), 4);
        queue->Fill(from.get(), 7, 2);
      },
      &why);
  ASSERT_NE(graph, nullptr) << why;
  EXPECT_EQ(Names(), std::vector<std::string>()) << "nothing runs while it is recorded";
  in[0] = in[3] = 1;
  cudaSetDevice(0);
  graph->Enqueue();
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[3], 1);
  graph->Enqueue();
  EXPECT_EQ(out[0], 7);
  EXPECT_EQ(out[3], 1);
  queue->Fill(from.get(), 0, 4);
  EXPECT_EQ(Names(), (std::vector<std::string>{"graph", "graph", "fill"}));
}

TEST_F(CudaGraphs, EndWithTheirRecordingIfWhatTheyRecordFails) {
  {
    const auto queue = gpu_.MakeQueue(QueuePriority::kNormal);
    std::string why;
    EXPECT_EQ(ErrorOf([&] {
                record_(
                    *queue, [] { throw Error("a bad layer"); }, &why);
              }),
              "a bad layer");
    EXPECT_EQ(cuda_.recordings, 0);
    queue->Synchronize();
  }
  EXPECT_EQ(cuda_.graphs, 0);
}

// The n-th call of the runtime fails, for every n: there is no graph, and the queue works as
// before; or one line names the GPU.
TEST_F(CudaGraphs, LeaveNothingBehindWhateverCallFails) {
  int without = 0, failed = 0;
  bool passed = false;
  for (uint64_t n = 0; !passed; ++n) {
    ASSERT_LT(n, 50u);
    cuda_.Reset();
    {
      const auto queue = gpu_.MakeQueue(QueuePriority::kNormal);
      const Buffer array(gpu_.memory(), 4);
      const uint64_t first = cuda_.calls();
      cuda_.fails_at = first + n;
      try {
        std::string why;
        const auto graph = record_(
            *queue, [&] { queue->Fill(array.get(), 1, 4); }, &why);
        EXPECT_EQ(cuda_.recordings, 0);
        if (graph != nullptr) {
          graph->Enqueue();
        } else {
          EXPECT_EQ(why, "an illegal address was met");
          queue->Fill(array.get(), 1, 4);
          ++without;
        }
        EXPECT_EQ(array.get<char>()[3], 1);
        passed = cuda_.calls() <= first + n;
      } catch (const DeviceError& error) {
        EXPECT_CONTAINS(error.what(), "cuda device 1: work has failed: ");
        ++failed;
      }
      EXPECT_EQ(cuda_.recordings, 0) << n;
      cuda_.fails_at = UINT64_MAX;
    }
    ASSERT_EQ(cuda_.graphs, 0) << n;
  }
  EXPECT_EQ(without, 3);  // the begin and the end of the recording, and the graph's instance
  EXPECT_GT(failed, 3);
}

}  // namespace
}  // namespace millrace::test
