// Copy rate measurement, and the device that owns an address.
#include "device/copy_rate.h"

#include <vector>

#include "test/support/cuda_devices.h"
#include "test/support/fake_clock.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"

namespace millrace {
namespace {

// Memory space whose copies advance the clock by a fixed time per byte.
class SlowSpace : public test::FakeMemory {
 public:
  explicit SlowSpace(test::FakeClock* clock) : FakeMemory("slow memory"), clock_(*clock) {}
  void CopyFromHost(void*, const void*, size_t bytes) override {
    // The first copy is slow, as on real devices.
    clock_.AdvanceNs(static_cast<int64_t>(bytes) / (copies_in++ == 0 ? 1 : 4));
  }
  void CopyToHost(void*, const void*, size_t bytes) override {
    clock_.AdvanceNs(static_cast<int64_t>(bytes) / 2);
  }

 private:
  test::FakeClock& clock_;
  int copies_in = 0;
};

TEST(CopyRate, IsThatOfTheFastestCopyEachWay) {
  test::FakeClock clock;
  SlowSpace space(&clock);
  const CopyRate rate = MeasureCopies(space, HostMemory(), clock);
  EXPECT_DOUBLE_EQ(rate.from_host, 4e9);
  EXPECT_DOUBLE_EQ(rate.to_host, 2e9);
}

TEST(DeviceRegistry, TakesWhatNoDeviceOwnsForHostMemory) {
  const std::vector<int> pageable(100);
  Device& owner = DeviceRegistry::Get().OwnerOf(pageable.data());
  EXPECT_EQ(&owner.memory(), &HostMemory());
  EXPECT_EQ(&owner.staging(), &HostMemory());
  EXPECT_TRUE(owner.memory().on_host());
  std::string why;
  EXPECT_LT(owner.memory().ExportDmaBuf(pageable.data(), 4, &why).file.get(), 0);
  EXPECT_EQ(why, "host memory needs none");
}

// Needs a GPU.
TEST(DeviceRegistry, KnowsTheMemoryOfAGpu) {
  if (const std::string why = test::WhyNoCudaDevice(0); !why.empty()) GTEST_SKIP() << why;
  DeviceRegistry& registry = DeviceRegistry::Get();
  for (const DeviceInfo& info : registry.FindDriver(DeviceType::kCuda)->List()) {
    Device& device = registry.Find(DeviceType::kCuda, info.ordinal);
    MemorySpace& memory = device.memory();
    const Buffer there(memory, 1000), here(device.staging(), 1000);
    EXPECT_EQ(&registry.OwnerOf(there.get<char>() + 999), &device);
    EXPECT_FALSE(memory.on_host());
    EXPECT_EQ(&registry.OwnerOf(here.get()), &HostDevice());
    std::string why;
    const DmaBuf file = memory.ExportDmaBuf(there.get<char>() + 100, 900, &why);
    EXPECT_TRUE(file.file.get() >= 0 || !why.empty());
    EXPECT_TRUE(file.file.get() < 0 || file.offset % 4096 == 100) << file.offset;
  }
}

}  // namespace
}  // namespace millrace
