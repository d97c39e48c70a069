// GPUs of a fake CUDA runtime: which context a call uses, what may be mapped, how threads wait, and
// what the lines say where a GPU cannot be used.
#include <glog/logging.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/cuda_status.h"
#include "millrace/device.h"
#include "test/cuda/fake_cuda.h"
#include "test/support/cuda_devices.h"
#include "test/support/support.h"
#include "test/support/test_thread.h"

namespace millrace::test {
namespace {

class CudaDevices : public testing::Test {
 protected:
  CudaDevices() { cuda_.Reset(); }
  ~CudaDevices() override { cuda_.Reset(); }

  DeviceDriver& Driver() { return *DeviceRegistry::Get().FindDriver(DeviceType::kCuda); }
  Device& Gpu(int ordinal) { return Driver().Open(ordinal); }
  static std::span<const std::byte> Bytes(const void* pointer, size_t bytes) {
    return {static_cast<const std::byte*>(pointer), bytes};
  }

  FakeCuda& cuda_ = FakeCuda::Get();
};

// A data reader's thread has used no GPU before.
TEST_F(CudaDevices, StagingMemoryBeginsNoContextOnAnotherGpu) {
  Device& gpu = Gpu(1);
  cuda_.Reset();
  std::thread([&] { const Buffer buffer(gpu.staging(), 100); }).join();
  EXPECT_EQ(cuda_.contexts(), std::set<int>{1});
  EXPECT_EQ(cuda_.blocks(), 0u);
}

TEST_F(CudaDevices, AllWorkOfAQueueIsOnItsOwnGpu) {
  Device& gpu = Gpu(1);
  cuda_.Reset();
  std::thread([&] {
    const auto queue = gpu.MakeQueue(QueuePriority::kNormal);
    const Buffer there(gpu.memory(), 64), here(gpu.staging(), 64);
    cudaSetDevice(1);  // the one that the thread used last need not be the queue's
    queue->CopyToDevice(there.get(), here.get(), 64);
    queue->Fill(there.get(), 1, 64);
    queue->CopyToHost(here.get(), there.get(), 64);
    queue->Record().Synchronize();
    queue->Wait(queue->Record());
    queue->Synchronize();
    EXPECT_EQ(*here.get<char>(), 1);
  }).join();
  EXPECT_EQ(cuda_.contexts(), std::set<int>{1});
  EXPECT_EQ(cuda_.streams, 0);
}

TEST_F(CudaDevices, AThreadThatWaitsAsksFirstAndThenSleeps) {
  const auto queue = Gpu(0).MakeQueue(QueuePriority::kNormal);
  queue->Synchronize();
  queue->Record().Synchronize();
  EXPECT_EQ(cuda_.queries, 2u);
  EXPECT_EQ(cuda_.waits_that_sleep(), 0);
  for (int wait = 1; wait <= 3; ++wait) {
    cuda_.late_queries = UINT64_MAX;
    queue->Synchronize();
    EXPECT_EQ(cuda_.waits_that_sleep(), wait);
  }
  EXPECT_GE(cuda_.queries, 5u);
  EXPECT_EQ(cuda_.waits_that_spin(), 0);
  EXPECT_EQ(cuda_.events, 1);  // used again
}

TEST_F(CudaDevices, AWaitReportsAFailureWhileItAsksAndWhileItSleeps) {
  for (const uint64_t late : {uint64_t{0}, UINT64_MAX}) {
    const auto queue = Gpu(0).MakeQueue(QueuePriority::kNormal);
    const Event event = queue->Record();
    cuda_.late_queries = late;
    cuda_.failure = cudaErrorIllegalAddress;
    // The first call; or one that surely comes, of the thread that sleeps or still asks.
    cuda_.sticky = true, cuda_.fails_at = cuda_.calls() + (late ? 1 : 0);
    EXPECT_EQ(ErrorOf([&] { event.Synchronize(); }),
              "cuda device 0: work has failed: an illegal address was met");
    cuda_.Reset();
  }
}

// Work that was enqueued before may still use memory that the caller now takes back.
TEST_F(CudaDevices, AQueueReportsARefusedCallOnceTheWorkBeforeItHasEnded) {
  const Buffer buffer(Gpu(0).memory(), 64);
  const auto queue = Gpu(0).MakeQueue(QueuePriority::kNormal);
  queue->Fill(buffer.get(), 1, 64);
  EXPECT_EQ(cuda_.waits_for_all_work, 0);
  cuda_.fails_at = cuda_.calls() + 1, cuda_.failure = cudaErrorLaunchOutOfResources;
  EXPECT_THROW(queue->Fill(buffer.get(), 1, 64), DeviceError);
  EXPECT_EQ(cuda_.waits_for_all_work, 1);
  EXPECT_THROW(queue->Synchronize(), DeviceError);
  EXPECT_EQ(cuda_.waits_for_all_work, 1);
}

TEST_F(CudaDevices, MapsMemoryOfOneKindAndGpuOnly) {
  Device &zero = Gpu(0), &one = Gpu(1);
  const Buffer own(zero.memory(), 1000), other(one.memory(), 1000), staged(one.staging(), 1000);
  EXPECT_NE(zero.Map(Bytes(own.get(), 1000)), nullptr);
  EXPECT_NE(zero.Map(Bytes(staged.get(), 1000)), nullptr);
  EXPECT_EQ(zero.Map(Bytes(other.get(), 1000)), nullptr);
  // Some bytes behind the block.
  EXPECT_EQ(zero.Map(Bytes(own.get(), size_t{1} << 20)), nullptr);
  EXPECT_EQ(zero.Map(Bytes(own.get(), 0)), nullptr);
  const std::vector<char> pageable(5000);
  const size_t before = cuda_.blocks();
  {
    const auto mapping = zero.Map(Bytes(pageable.data(), pageable.size()));
    ASSERT_NE(mapping, nullptr);
    EXPECT_EQ(cuda_.blocks(), before + 1);
  }
  EXPECT_EQ(cuda_.blocks(), before);
}

TEST_F(CudaDevices, TheLinesSayWhatKeepsAMachineFromUsingGpus) {
  cuda_.count_status = cudaErrorInsufficientDriver;
  cuda_.driver = 0;
  EXPECT_EQ(Driver().WhyNone(), "no NVIDIA driver is installed");
  EXPECT_TRUE(Driver().List().empty());
  cuda_.driver = 12040;
  EXPECT_EQ(Driver().WhyNone(), "driver for CUDA 12.4, this build needs 13.0");
  EXPECT_EQ(
      ErrorOf([&] { Driver().Open(99); }),
      "cuda device 99 does not exist; no GPU is usable here: driver for CUDA 12.4, this build "
      "needs 13.0");
  cuda_.driver = 13000;
  cuda_.count_status = cudaErrorDevicesUnavailable;
  EXPECT_CONTAINS(Driver().WhyNone(), "another process uses it in exclusive mode");
}

TEST_F(CudaDevices, AGpuThatAnotherProcessHoldsIsNamedWithTheCause) {
  const auto queue = Gpu(0).MakeQueue(QueuePriority::kNormal);
  cuda_.fails_at = cuda_.calls(), cuda_.failure = cudaErrorDevicesUnavailable;
  EXPECT_EQ(
      ErrorOf([&] { Gpu(0).MakeQueue(QueuePriority::kNormal); }),
      "cuda device 0: cannot be used: the device is busy or unavailable: another process uses "
      "it in exclusive mode, or MPS admits no further one (nvidia-smi -q -d COMPUTE shows the "
      "mode)");
  cuda_.fails_at = cuda_.calls(), cuda_.failure = cudaErrorMpsServerNotReady;
  EXPECT_CONTAINS(ErrorOf([&] { Gpu(0).MakeQueue(QueuePriority::kNormal); }),
                  "the MPS server of this machine refuses this process");
}

TEST_F(CudaDevices, AGpuOlderThanTheCodeIsRefusedWhenItIsOpened) {
  cuda_.devices = 40;  // ordinals that no other test opens
  cuda_.capability = 52;
  EXPECT_EQ(ErrorOf([&] { Gpu(33); }),
            "cuda device 33: compute capability 5.2, this build needs at least 8.0 "
            "(make CUDA_ARCHS=sm_52)");
  cuda_.capability = 80;
  EXPECT_EQ(Gpu(34).name(), "cuda device 34");
}

// Counts lines of the log.
class CountedLog : public google::LogSink {
 public:
  CountedLog() { google::AddLogSink(this); }
  ~CountedLog() override { google::RemoveLogSink(this); }
  void send(google::LogSeverity severity, const char*, const char*, int, const struct tm*,
            const char*, size_t) override {
    errors += severity == google::GLOG_ERROR;
  }
  int errors = 0;
};

TEST_F(CudaDevices, AnErrorOfAFailedGpuIsLoggedOnce) {
  const CountedLog log;
  {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 20; ++i) buffers.emplace_back(Gpu(1).memory(), 10);
    const auto queue = Gpu(1).MakeQueue(QueuePriority::kNormal);
    queue->Record();
    cuda_.fails_at = cuda_.calls(), cuda_.sticky = true, cuda_.failure = cudaErrorLaunchFailure;
    EXPECT_THROW(queue->Synchronize(), DeviceError);
  }
  EXPECT_EQ(log.errors, 1);
}

// A failure of a kernel stays with the process: it is one line for all who use the GPU, and nothing
// waits for work that will not end.
TEST_F(CudaDevices, AFailureThatStaysIsTheSameLineForAllQueuesAndThreads) {
  // A device of which nothing else has been logged.
  cuda_.devices = 9;
  const CountedLog log;
  {
    Device& gpu = Gpu(8);
    const Buffer there(gpu.memory(), 64), here(gpu.staging(), 64);
    std::vector<std::unique_ptr<Queue>> queues;
    std::vector<Event> events;
    for (int i = 0; i < 4; ++i) {
      queues.push_back(gpu.MakeQueue(QueuePriority::kNormal));
      events.push_back(queues.back()->Record());
    }
    cuda_.fails_at = cuda_.calls(), cuda_.sticky = true;
    const std::string line = "cuda device 8: work has failed: an illegal address was met";
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        Queue& queue = *queues[i];
        EXPECT_EQ(ErrorOf([&] { events[i].Synchronize(); }), line);
        EXPECT_EQ(ErrorOf([&] { events[i].Done(); }), line);
        EXPECT_EQ(ErrorOf([&] { queue.Fill(there.get(), 1, 64); }), line);
        EXPECT_EQ(ErrorOf([&] { queue.CopyToHost(here.get(), there.get(), 64); }), line);
        EXPECT_EQ(ErrorOf([&] { queue.Wait(events[(i + 1) % 4]); }), line);
        EXPECT_EQ(ErrorOf([&] { queue.Record(); }), line);
        EXPECT_EQ(ErrorOf([&] { queue.Synchronize(); }), line);
        EXPECT_CONTAINS(ErrorOf([&] { gpu.memory().CopyToHost(here.get(), there.get(), 64); }),
                        "cuda device 8: ");
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(log.errors, 1);
  EXPECT_EQ(cuda_.streams, 0);
}

TEST_F(CudaDevices, AFailureThatStaysFailsEachLaterTestBeforeItBegins) {
  EXPECT_EQ(WhyBrokenCudaDevice(1), "");
  cuda_.fails_at = cuda_.calls(), cuda_.sticky = true;
  for (int test = 0; test < 3; ++test) {
    const uint64_t before = cuda_.calls();
    EXPECT_FATAL_FAILURE(RequireCudaDevice(1),
                         "the GPU has failed before this test: cuda device 1: cannot be used: an "
                         "illegal address was met");
    EXPECT_LT(cuda_.calls() - before, 5u);
  }
}

TEST(TestThreads, TurnAnErrorIntoAFailureOfTheTest) {
  EXPECT_NONFATAL_FAILURE_ON_ALL_THREADS(TestThread([] { throw Error("the GPU has failed"); }),
                                         "in a thread of the test: the GPU has failed");
}

// The n-th call of the runtime fails, for every n: each failure is one line that names the GPU.
TEST_F(CudaDevices, NamesTheGpuWhateverCallFails) {
  Device& gpu = Gpu(0);
  bool passed = false;
  for (uint64_t n = 0; !passed; ++n) {
    ASSERT_LT(n, 200u);
    cuda_.Reset();
    cuda_.fails_at = n;
    try {
      const auto queue = gpu.MakeQueue(QueuePriority::kLow);
      const Buffer there(gpu.memory(), 64), here(gpu.staging(), 64);
      gpu.memory().Fill(there.get(), 1, 64);
      queue->CopyToHost(here.get(), there.get(), 64);
      queue->CopyToDevice(there.get(), here.get(), 64);
      queue->Copy(there.get<char>(), there.get<char>() + 32, 32);
      queue->Wait(queue->Record());
      queue->Synchronize();
      gpu.memory().CopyToHost(here.get(), there.get(), 64);
      gpu.Map(Bytes(here.get(), 64));
      passed = cuda_.calls() <= n;
    } catch (const Error& error) {
      EXPECT_CONTAINS(error.what(), "cuda device 0: ");
    }
  }
  EXPECT_EQ(cuda_.streams, 0);
  EXPECT_EQ(cuda_.events, 0);
}

}  // namespace
}  // namespace millrace::test
