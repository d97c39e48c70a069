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
      [&](GraphPoints&) {
        queue->Copy(to.get(), from.get(), 4);
        queue->Fill(from.get(), 7, 2);
      },
      &why);
  ASSERT_NE(graph, nullptr) << why;
  // On the stream beside the queue's; nothing of the work runs while it is recorded.
  EXPECT_EQ(Names(), std::vector<std::string>{"event"});
  in[0] = in[3] = 1;
  cudaSetDevice(0);
  graph->Enqueue();
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[3], 1);
  graph->Enqueue();
  EXPECT_EQ(out[0], 7);
  EXPECT_EQ(out[3], 1);
  queue->Fill(from.get(), 0, 4);
  EXPECT_EQ(Names(), (std::vector<std::string>{"event", "graph", "graph", "fill"}));
}

// The host waits for the mark, and the wait is for what each launch is given.
TEST_F(CudaGraphs, MarkAPointOfTheirWorkAndWaitForOtherWork) {
  const auto queue = gpu_.MakeQueue(QueuePriority::kNormal);
  const auto other = gpu_.MakeQueue(QueuePriority::kLow);
  const Buffer array(gpu_.memory(), 4);
  std::string why;
  const auto graph = record_(
      *queue,
      [&](GraphPoints& points) {
        queue->Fill(array.get(), 1, 4);
        points.Mark();
        queue->Fill(array.get(), 2, 4);
        points.Wait();
        queue->Fill(array.get(), 3, 4);
      },
      &why);
  ASSERT_NE(graph, nullptr) << why;
  for (int i = 0; i < 2; ++i) {
    const Event last = other->Record();
    const size_t before = Names().size();
    graph->Enqueue(last);
    const std::vector<std::string> names = Names();
    // On a stream beside the graph's.
    EXPECT_EQ(std::vector<std::string>(names.begin() + before, names.end()),
              (std::vector<std::string>{"wait", "event", "graph"}));
    EXPECT_NE(cuda_.work().back().stream, (cuda_.work().end() - 2)->stream);
    EXPECT_TRUE(graph->marked().Done());
    EXPECT_EQ(array.get<char>()[0], 3);
  }
}

TEST_F(CudaGraphs, AreRefusedWithWhatTheirWorkThrowsAndLeaveTheQueueAsItWas) {
  {
    const auto queue = gpu_.MakeQueue(QueuePriority::kNormal);
    std::string why;
    EXPECT_EQ(record_(
                  *queue, [](GraphPoints&) { throw Error("a bad layer"); }, &why),
              nullptr);
    EXPECT_EQ(why, "a bad layer");
    EXPECT_EQ(cuda_.recordings, 0);
    // A wait for work that is not recorded is no part of the recording.
    const Event unrecorded = queue->Record();
    EXPECT_EQ(record_(
                  *queue, [&](GraphPoints&) { queue->Wait(unrecorded); }, &why),
              nullptr);
    EXPECT_EQ(why, "an illegal address was met");  // the fake runtime's text for all errors
    queue->Synchronize();
  }
  EXPECT_EQ(cuda_.graphs, 0);
  EXPECT_EQ(cuda_.streams, 0);
  EXPECT_EQ(cuda_.events, 0);
}

TEST_F(CudaGraphs, EndWithTheDeviceIfItFailsWhileTheyAreRecorded) {
  const auto queue = gpu_.MakeQueue(QueuePriority::kNormal);
  const Buffer array(gpu_.memory(), 4);
  std::string why;
  EXPECT_EQ(ErrorOf([&] {
              record_(
                  *queue,
                  [&](GraphPoints&) {
                    cuda_.fails_at = cuda_.calls(), cuda_.sticky = true;
                    queue->Fill(array.get(), 1, 4);
                  },
                  &why);
            }),
            "cuda device 1: work has failed: an illegal address was met");
  EXPECT_EQ(cuda_.recordings, 0);
  cuda_.fails_at = UINT64_MAX;
}

// The n-th call of the runtime fails, for every n: there is no graph, and the queue works as
// before; or one line names the GPU.
TEST_F(CudaGraphs, LeaveNothingBehindWhateverCallFails) {
  int without = 0, failed = 0;
  bool passed = false;
  for (uint64_t n = 0; !passed; ++n) {
    ASSERT_LT(n, 100u);
    cuda_.Reset();
    {
      const auto queue = gpu_.MakeQueue(QueuePriority::kNormal);
      const Buffer array(gpu_.memory(), 4);
      const uint64_t first = cuda_.calls();
      cuda_.fails_at = first + n;
      try {
        std::string why;
        const auto graph = record_(
            *queue,
            [&](GraphPoints& points) {
              points.Mark();
              points.Wait();
              queue->Fill(array.get(), 1, 4);
            },
            &why);
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
        EXPECT_CONTAINS(error.what(), "cuda device 1: ");
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        ++failed;
      }
      EXPECT_EQ(cuda_.recordings, 0) << n;
      cuda_.fails_at = UINT64_MAX;
    }
    ASSERT_EQ(cuda_.graphs, 0) << n;
    ASSERT_EQ(cuda_.streams, 0) << n;
  }
  // The begin and the end of the recording, the mark, the wait, the fill with its selection of the
  // GPU, and the graph's instance.
  EXPECT_EQ(without, 7);
  EXPECT_GT(failed, 3);
}

}  // namespace
}  // namespace millrace::test
