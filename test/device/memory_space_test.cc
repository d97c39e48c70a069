// The contract of MemorySpace, tested for every space of this build and of the fake device: the
// memory of each device and its staging memory. Spaces of drivers without hardware are skipped by
// name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "millrace/device.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"

namespace millrace {
namespace {

struct Space {
  std::string name;
  DeviceType type;
  int ordinal;
  bool staging;
};
void PrintTo(const Space& space, std::ostream* out) { *out << space.name; }

// At least one entry per driver, so that a missing device is reported as skipped.
std::vector<Space> AllSpaces() {
  std::vector<Space> spaces;
  for (DeviceType type : {DeviceType::kCpu, DeviceType::kCuda}) {
    DeviceDriver* driver = DeviceRegistry::Get().FindDriver(type);
    const size_t found = driver ? driver->List().size() : 0;
    for (size_t i = 0; i < std::max<size_t>(found, 1); ++i) {
      for (bool staging : {false, true}) {
        if (staging && found == 0) continue;
        spaces.push_back({StrCat(DeviceTypeName(type), i, staging ? "_staging" : ""), type,
                          static_cast<int>(i), staging});
      }
    }
  }
  for (bool staging : {false, true}) {
    spaces.push_back({staging ? "fake_staging" : "fake", test::kFakeDevice, 0, staging});
  }
  return spaces;
}

class MemorySpaceContract : public testing::TestWithParam<Space> {
 protected:
  void SetUp() override {
    const Space& param = GetParam();
    Device* device = &fake_;
    if (param.type != test::kFakeDevice) {
      DeviceDriver* driver = DeviceRegistry::Get().FindDriver(param.type);
      const char* type = DeviceTypeName(param.type);
      if (!driver) GTEST_SKIP() << "this build has no driver for " << type;
      if (driver->List().empty()) GTEST_SKIP() << "no " << type << " device on this machine";
      device = &driver->Open(param.ordinal);
    }
    space_ = param.staging ? &device->staging() : &device->memory();
  }

  MemorySpace* space_ = nullptr;
  test::FakeDevice fake_;
};

TEST_P(MemorySpaceContract, AllocatesOnCacheLines) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4096},
                       (size_t{5} << 20) + 3}) {
    Buffer buffer(*space_, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.get()) % 64, 0u) << bytes << " bytes";
    EXPECT_NE(buffer.get(), nullptr) << bytes << " bytes";
  }
}

TEST_P(MemorySpaceContract, TakesRequestsOfNoBytes) {
  Buffer buffer(*space_, 0);
  char byte = 'x';
  space_->Fill(buffer.get(), 0, 0);
  space_->CopyFromHost(buffer.get(), &byte, 0);
  space_->CopyToHost(&byte, buffer.get(), 0);
  EXPECT_EQ(byte, 'x');
}

TEST_P(MemorySpaceContract, GivesBackWhatWasCopiedIn) {
  Rng rng(test::Seed(), {1});
  for (size_t bytes : {size_t{1}, size_t{1000}, size_t{3} << 20}) {
    std::vector<unsigned char> in(bytes), out(bytes, 0);
    for (unsigned char& byte : in) byte = static_cast<unsigned char>(rng.Next());
    Buffer buffer(*space_, bytes);
    space_->CopyFromHost(buffer.get(), in.data(), bytes);
    space_->CopyToHost(out.data(), buffer.get(), bytes);
    EXPECT_EQ(in, out);
  }
}

TEST_P(MemorySpaceContract, CopiesAndFillsPartsOnly) {
  std::vector<unsigned char> all(256), out(256);
  std::iota(all.begin(), all.end(), 0);
  Buffer buffer(*space_, 256);
  auto* bytes = buffer.get<unsigned char>();
  space_->CopyFromHost(bytes, all.data(), 256);
  space_->Fill(bytes + 10, 0xab, 20);
  space_->CopyFromHost(bytes + 100, all.data(), 3);
  space_->CopyToHost(out.data(), bytes, 256);
  for (size_t i = 10; i < 30; ++i) all[i] = 0xab;
  for (size_t i = 0; i < 3; ++i) all[100 + i] = static_cast<unsigned char>(i);
  EXPECT_EQ(out, all);
  space_->CopyToHost(out.data(), bytes + 200, 5);
  EXPECT_EQ(std::vector<unsigned char>(out.begin(), out.begin() + 5),
            (std::vector<unsigned char>{200, 201, 202, 203, 204}));
}

TEST_P(MemorySpaceContract, ThrowsAnErrorWhenMemoryRunsOut) {
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 4}) {
    EXPECT_CONTAINS(test::ErrorOf([&] { space_->Allocate(bytes); }),
                    StrCat("cannot allocate ", bytes, " bytes"));
  }
  Buffer afterwards(*space_, 100);  // the space still works
  space_->Fill(afterwards.get(), 1, 100);
}

TEST_P(MemorySpaceContract, ServesSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<int> in(1000, t), out(1000);
      for (int round = 0; round < 20; ++round) {
        Buffer buffer(*space_, sizeof(int) * in.size());
        space_->CopyFromHost(buffer.get(), in.data(), buffer.bytes());
        space_->CopyToHost(out.data(), buffer.get(), buffer.bytes());
        wrong[static_cast<size_t>(t)] += in != out;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

INSTANTIATE_TEST_SUITE_P(Every, MemorySpaceContract, testing::ValuesIn(AllSpaces()),
                         [](const auto& info) { return info.param.name; });

// ---- Drivers and buffers ----

TEST(DeviceRegistry, NamesTheHostAsCpuZero) {
  const std::vector<DeviceInfo> all = DeviceRegistry::Get().List();
  ASSERT_FALSE(all.empty());
  const auto host = std::find_if(
      all.begin(), all.end(), [](const DeviceInfo& info) { return info.type == DeviceType::kCpu; });
  ASSERT_NE(host, all.end());
  EXPECT_EQ(host->ordinal, 0);
  EXPECT_GT(host->memory_bytes, size_t{1} << 20);
  EXPECT_EQ(&DeviceRegistry::Get().Find(DeviceType::kCpu, 0), &HostDevice());
  EXPECT_EQ(&HostDevice().memory(), &HostMemory());
  EXPECT_EQ(&HostDevice().staging(), &HostMemory());
}

TEST(DeviceRegistry, RefusesDevicesThatDoNotExist) {
  for (DeviceType type : {DeviceType::kCpu, DeviceType::kCuda}) {
    DeviceDriver* driver = DeviceRegistry::Get().FindDriver(type);
    if (!driver) continue;  // a build without CUDA
    for (int ordinal : {-1, static_cast<int>(driver->List().size())}) {
      const std::string expected =
          StrCat(DeviceTypeName(type), " device ", ordinal, " does not exist");
      EXPECT_CONTAINS(test::ErrorOf([&] { driver->Open(ordinal); }), expected);
      EXPECT_CONTAINS(test::ErrorOf([&] { DeviceRegistry::Get().Find(type, ordinal); }), expected);
    }
  }
}

TEST(DeviceRegistry, SaysThatItHasNoDriver) {
  DeviceRegistry empty;
  EXPECT_CONTAINS(test::ErrorOf([&] { empty.Find(DeviceType::kCuda, 3); }), "cuda device 3: ");
  EXPECT_EQ(test::ErrorOf([&] { empty.Find(test::kFakeDevice, 0); }),
            "unknown device 0: this program has no driver for it");
}

TEST(Buffer, FreesItsMemoryOnceHoweverItIsMoved) {
  test::FakeMemory space("memory");
  {
    Buffer one(space, 10), two(space, 20);
    EXPECT_EQ(space.blocks(), 2u);
    Buffer three = std::move(one);
    EXPECT_EQ(three.bytes(), 10u);
    three = std::move(two);
    EXPECT_EQ(three.bytes(), 20u);
    three.Reset();
    EXPECT_EQ(three.get(), nullptr);
    EXPECT_EQ(three.bytes(), 0u);
  }
  EXPECT_EQ(space.blocks(), 0u);
}

}  // namespace
}  // namespace millrace
