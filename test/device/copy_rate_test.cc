// Copy rate measurement, and the device that owns an address.
#include "device/copy_rate.h"

#include <vector>

#include "test/support/cuda_devices.h"
#include "test/support/support.h"

namespace millrace {
namespace {

// Memory space whose copies advance the clock by a fixed time per byte.
class SlowSpace : public MemorySpace {
 public:
  explicit SlowSpace(ManualClock* clock) : clock_(*clock) {}
  void* Allocate(size_t bytes) override { return HostMemory().Allocate(bytes); }
  void Free(void* pointer) override { HostMemory().Free(pointer); }
  void Fill(void* pointer, int byte, size_t bytes) override {
    HostMemory().Fill(pointer, byte, bytes);
  }
  void CopyFromHost(void*, const void*, size_t bytes) override {
    // The first copy is slow, as on real devices.
    clock_.AdvanceNs(static_cast<int64_t>(bytes) / (copies_in++ == 0 ? 1 : 4));
  }
  void CopyToHost(void*, const void*, size_t bytes) override {
    clock_.AdvanceNs(static_cast<int64_t>(bytes) / 2);
  }

 private:
  ManualClock& clock_;
  int copies_in = 0;
};

TEST(CopyRate, IsThatOfTheFastestCopyEachWay) {
  ManualClock clock;
  SlowSpace space(&clock);
  const CopyRate rate = MeasureCopies(space, HostMemory(), clock);
  EXPECT_DOUBLE_EQ(rate.from_host, 4e9);
  EXPECT_DOUBLE_EQ(rate.to_host, 2e9);
}

TEST(DeviceRegistry, TakesWhatNoDeviceOwnsForHostMemory) {
  const std::vector<int> pageable(100);
  const DeviceRegistry::Owner owner = DeviceRegistry::Get().OwnerOf(pageable.data());
  EXPECT_EQ(owner.memory, &HostMemory());
  EXPECT_EQ(owner.staging, &HostMemory());
  EXPECT_TRUE(owner.memory->on_host());
  std::string why;
  EXPECT_LT(owner.memory->ExportDmaBuf(pageable.data(), 4, &why).file.get(), 0);
  EXPECT_EQ(why, "host memory needs none");
}

// Needs a GPU.
TEST(DeviceRegistry, KnowsTheMemoryOfAGpu) {
  if (const std::string why = test::WhyNoCudaDevice(0); !why.empty()) GTEST_SKIP() << why;
  DeviceDriver* const driver = DeviceRegistry::Get().Find(DeviceType::kCuda);
  for (const DeviceInfo& info : driver->List()) {
    MemorySpace& memory = driver->Memory(info.ordinal);
    const Buffer there(memory, 1000), here(driver->Staging(info.ordinal), 1000);
    const DeviceRegistry::Owner owner = DeviceRegistry::Get().OwnerOf(there.get<char>() + 999);
    EXPECT_EQ(owner.memory, &memory);
    EXPECT_EQ(owner.staging, &driver->Staging(info.ordinal));
    EXPECT_FALSE(memory.on_host());
    EXPECT_EQ(DeviceRegistry::Get().OwnerOf(here.get()).memory, &HostMemory());
    std::string why;
    const DmaBuf file = memory.ExportDmaBuf(there.get<char>() + 100, 900, &why);
    EXPECT_TRUE(file.file.get() >= 0 || !why.empty());
    EXPECT_TRUE(file.file.get() < 0 || file.offset % 4096 == 100) << file.offset;
  }
}

}  // namespace
}  // namespace millrace
