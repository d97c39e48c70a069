// Which path connects GPU memory to a network device, by the results of the probes.
#include "transport/gpu_direct_mode.h"

#include "base/error.h"
#include "test/support/support.h"

namespace millrace {
namespace {

struct FakeProbes : NicProbes {
  std::string dma_buf, peer, staging;
  int tried = 0;

  std::string TryDmaBuf() override {
    EXPECT_EQ(tried++, 0);
    return dma_buf;
  }
  std::string TryPeerMemory() override {
    EXPECT_EQ(tried++, 1);
    return peer;
  }
  std::string TryStaging(CopyRate* rate) override {
    EXPECT_EQ(tried++, 2);
    *rate = {.to_host = 12.34e9, .from_host = 9e9};
    return staging;
  }
};

NicChoice Choose(FakeProbes* probes) {
  return ChooseNicPath("mlx5_0 port 1", "cuda device 2", probes);
}

TEST(GpuDirectMode, IsADmaBufWhereThereIsOne) {
  FakeProbes probes;
  const NicChoice choice = Choose(&probes);
  EXPECT_EQ(choice.path, GpuDirectMode::kDmaBuf);
  EXPECT_EQ(choice.line,
            "transport verbs: mlx5_0 port 1: reads the memory of cuda device 2 itself, by dma-buf");
  EXPECT_EQ(probes.tried, 1);  // nothing is registered twice
}

TEST(GpuDirectMode, IsPeerMemoryWhereThereIsNoDmaBuf) {
  FakeProbes probes;
  probes.dma_buf = "the driver is old";
  const NicChoice choice = Choose(&probes);
  EXPECT_EQ(choice.path, GpuDirectMode::kPeerMemory);
  EXPECT_EQ(choice.line,
            "transport verbs: mlx5_0 port 1: reads the memory of cuda device 2 itself, by peer "
            "memory; no dma-buf: the driver is old");
  EXPECT_EQ(probes.tried, 2);
}

TEST(GpuDirectMode, IsTheHostWhereTheDeviceReachesNothingAndTheLineSaysHowFast) {
  FakeProbes probes;
  probes.dma_buf = "the driver is old";
  probes.peer = "the module is not loaded";
  const NicChoice choice = Choose(&probes);
  EXPECT_EQ(choice.path, GpuDirectMode::kStaged);
  EXPECT_EQ(choice.line,
            "transport verbs: mlx5_0 port 1: the memory of cuda device 2 is copied through the "
            "host, 12.3 GB/s out and 9 GB/s in; dma-buf: the driver is old; peer memory: the "
            "module is not loaded");
}

TEST(GpuDirectMode, ThatDoesNotExistIsOneLineWithAllReasons) {
  FakeProbes probes;
  probes.dma_buf = "A";
  probes.peer = "B";
  probes.staging = "C";
  EXPECT_EQ(test::ErrorOf([&] { Choose(&probes); }),
            "transport verbs: mlx5_0 port 1: no way from the memory of cuda device 2 to this "
            "device: dma-buf: A; peer memory: B; staging: C");
}

}  // namespace
}  // namespace millrace
