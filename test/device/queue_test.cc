// The contract of Queue and Event, tested for the host, for the fake device with each of its kinds
// of queue, and for the GPUs of this machine.
#include "millrace/queue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "millrace/device.h"
#include "test/support/cuda_devices.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::FakeDevice;
using test::FakeMode;
using test::FakeQueue;

struct Kind {
  std::string name;
  DeviceType type = test::kFakeDevice;
  int ordinal = 0;
  FakeMode mode = FakeMode::kAtOnce;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds = {{"cpu", DeviceType::kCpu},
                             {.name = "fake_at_once"},
                             {.name = "fake_late", .mode = FakeMode::kLate},
                             {.name = "fake_thread", .mode = FakeMode::kThread}};
  for (const int ordinal : test::CudaOrdinals()) {
    kinds.push_back({StrCat("cuda", ordinal), DeviceType::kCuda, ordinal});
  }
  return kinds;
}

class QueueContract : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam().type == test::kFakeDevice) {
      device_ = &fake_;
      return;
    }
    if (GetParam().type == DeviceType::kCuda) {
      test::RequireCudaDevice(GetParam().ordinal);
      if (IsSkipped() || HasFatalFailure()) return;
    }
    device_ = &DeviceRegistry::Get().Find(GetParam().type, GetParam().ordinal);
  }
  std::unique_ptr<Queue> MakeQueue() { return device_->MakeQueue(QueuePriority::kNormal); }

  FakeDevice fake_{{.mode = GetParam().mode}};
  Device* device_ = nullptr;
};

constexpr size_t kBytes = 100'000;

// Bytes 0, 1, ... 255, 0, ... in staging memory.
Buffer Numbered(Device* device, int first = 0) {
  Buffer buffer(device->staging(), kBytes);
  std::iota(buffer.get<uint8_t>(), buffer.get<uint8_t>() + kBytes, static_cast<uint8_t>(first));
  return buffer;
}

TEST_P(QueueContract, RunsCopiesAndFillsInOrder) {
  const auto queue = MakeQueue();
  EXPECT_EQ(&queue->device(), device_);
  const Buffer in = Numbered(device_), out(device_->staging(), kBytes);
  const Buffer a(device_->memory(), kBytes), b(device_->memory(), kBytes);
  queue->CopyToDevice(a.get(), in.get(), kBytes);
  queue->Fill(a.get<char>() + 10, 7, 20);
  queue->Copy(b.get(), a.get(), kBytes);
  queue->Fill(a.get(), 0, kBytes);
  queue->CopyToHost(out.get(), b.get(), kBytes);
  queue->Synchronize();
  std::vector<uint8_t> expected(in.get<uint8_t>(), in.get<uint8_t>() + kBytes);
  std::fill_n(expected.begin() + 10, 20, 7);
  EXPECT_EQ(memcmp(out.get(), expected.data(), kBytes), 0);
  queue->CopyToHost(out.get(), a.get(), kBytes);
  queue->Synchronize();
  EXPECT_EQ(out.get<char>()[kBytes - 1], 0);
}

TEST_P(QueueContract, TakesRequestsOfNoBytes) {
  const auto queue = MakeQueue();
  const Buffer host(device_->staging(), 8), memory(device_->memory(), 8);
  queue->CopyToDevice(memory.get(), host.get(), 0);
  queue->Copy(memory.get(), memory.get(), 0);
  queue->Fill(memory.get(), 1, 0);
  queue->CopyToHost(host.get(), memory.get(), 0);
  queue->Synchronize();
}

TEST_P(QueueContract, ReachesAnEventAfterTheWorkBeforeIt) {
  const auto queue = MakeQueue();
  const Buffer in = Numbered(device_), out(device_->staging(), kBytes);
  const Buffer memory(device_->memory(), kBytes);
  Event last;
  EXPECT_TRUE(last.Done());
  last.Synchronize();  // a point that has been reached
  for (int round = 0; round < 20; ++round) {
    memset(in.get(), round, kBytes);
    queue->CopyToDevice(memory.get(), in.get(), kBytes);
    queue->CopyToHost(out.get(), memory.get(), kBytes);
    last = queue->Record();
    const Event copy = last;
    copy.Synchronize();
    EXPECT_TRUE(last.Done());
    EXPECT_EQ(out.get<char>()[kBytes - 1], round);
  }
}

TEST_P(QueueContract, WaitsForEventsOfAnotherQueue) {
  const auto first = MakeQueue(), second = device_->MakeQueue(QueuePriority::kLow);
  const Buffer in = Numbered(device_, 3), out(device_->staging(), kBytes);
  const Buffer memory(device_->memory(), kBytes);
  first->CopyToDevice(memory.get(), in.get(), kBytes);
  second->Wait(first->Record());
  second->Wait(Event());
  second->Wait(HostQueue().Record());
  second->CopyToHost(out.get(), memory.get(), kBytes);
  second->Synchronize();
  EXPECT_EQ(memcmp(out.get(), in.get(), kBytes), 0);
}

TEST_P(QueueContract, CompletesItsWorkBeforeItEnds) {
  const Buffer in = Numbered(device_, 5), out(device_->staging(), kBytes);
  const Buffer memory(device_->memory(), kBytes);
  Event end;
  {
    const auto queue = MakeQueue();
    queue->CopyToDevice(memory.get(), in.get(), kBytes);
    queue->CopyToHost(out.get(), memory.get(), kBytes);
    end = queue->Record();
  }
  EXPECT_EQ(memcmp(out.get(), in.get(), kBytes), 0);
  EXPECT_TRUE(end.Done());
  end.Synchronize();
}

TEST_P(QueueContract, MapsHostMemoryForKernels) {
  std::vector<std::byte> pageable(10'000);
  const auto mapping = device_->Map(pageable);
  ASSERT_NE(mapping, nullptr);
  EXPECT_NE(mapping->address(), nullptr);
  const Buffer staging(device_->staging(), 100);
  const auto of_staging = device_->Map({staging.get<std::byte>(), 100});
  ASSERT_NE(of_staging, nullptr);
  EXPECT_EQ(of_staging->address(), staging.get<std::byte>());
}

INSTANTIATE_TEST_SUITE_P(On, QueueContract, testing::ValuesIn(Kinds()),
                         [](const auto& info) { return info.param.name; });

// ---- The host ----

TEST(HostQueue, CompletesEachCallAtOnce) {
  const std::vector<float> in = {1, 2, 3};
  std::vector<float> out(3);
  HostQueue().CopyToDevice(out.data(), in.data(), 12);
  EXPECT_EQ(out, in);
  HostQueue().Fill(out.data(), 0, 8);
  EXPECT_EQ(out, (std::vector<float>{0, 0, 3}));
  EXPECT_EQ(HostQueue().Record().state(), nullptr);
}

// ---- What tests rely on when they use the fake device ----

TEST(FakeDevice, RunsLateWorkWhenItIsWaitedFor) {
  FakeDevice device({.mode = FakeMode::kLate});
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  const Buffer out(device.staging(), 8), memory(device.memory(), 8);
  device.memory().Fill(memory.get(), 1, 8);
  memset(out.get(), 0, 8);
  queue->CopyToHost(out.get(), memory.get(), 4);
  const Event half = queue->Record();
  queue->CopyToHost(out.get<char>() + 4, memory.get(), 4);
  EXPECT_FALSE(half.Done());
  EXPECT_EQ(out.get<char>()[0], 0);
  half.Synchronize();
  EXPECT_EQ(out.get<char>()[0], 1);
  EXPECT_EQ(out.get<char>()[4], 0);
  queue->Synchronize();
  EXPECT_EQ(out.get<char>()[4], 1);
}

TEST(FakeDevice, ReportsAFailureFromEveryLaterCall) {
  for (const FakeMode mode : {FakeMode::kAtOnce, FakeMode::kLate, FakeMode::kThread}) {
    FakeDevice device({.mode = mode});
    const auto queue = device.MakeQueue(QueuePriority::kNormal);
    const Buffer memory(device.memory(), 8);
    const Event event = queue->Record();
    FakeQueue::Of(*queue).Enqueue([] { throw Error("an illegal address was met"); });
    const std::string why = "fake device 0: an illegal address was met";
    EXPECT_EQ(test::ErrorOf([&] { queue->Synchronize(); }), why);
    EXPECT_EQ(test::ErrorOf([&] { queue->Record(); }), why);
    EXPECT_EQ(test::ErrorOf([&] { queue->Fill(memory.get(), 0, 8); }), why);
    EXPECT_EQ(test::ErrorOf([&] { event.Synchronize(); }), why);
    EXPECT_EQ(test::ErrorOf([&] { event.Done(); }), why);
  }
}

TEST(FakeDevice, RefusesMemoryThatAGpuCouldNotUse) {
  FakeDevice device;
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  const Buffer memory(device.memory(), 8), staging(device.staging(), 8);
  char pageable[8] = {};
  const std::string expected =
      "a copy was given host memory that is not staging memory of fake device 0";
  EXPECT_EQ(test::ErrorOf([&] { queue->CopyToDevice(memory.get(), pageable, 8); }), expected);
  EXPECT_EQ(test::ErrorOf([&] { queue->CopyToHost(pageable, memory.get(), 8); }), expected);
  EXPECT_EQ(test::ErrorOf([&] { queue->CopyToHost(staging.get(), memory.get(), 9); }), expected);
  queue->Fill(staging.get(), 0, 8);
  EXPECT_EQ(test::ErrorOf([&] { queue->Synchronize(); }),
            "fake device 0: a kernel was given memory that is not its device's");
}

TEST(FakeDevice, EndsAProgramThatReadsItsMemory) {
  FakeDevice device;
  const Buffer memory(device.memory(), 8);
  EXPECT_DEATH(
      {
        volatile const char* const at = memory.get<char>();
        const char value = *at;
        (void)value;
      },
      "");
}

}  // namespace
}  // namespace millrace
