// Clusters on networks that harm what they carry, that are slow, and whose machines fall
// behind: what arrives wrong is found and counted, and training goes on.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include "test/netns/bad_switch.h"
#include "test/netns/cluster_of_machines.h"

namespace millrace::test {
namespace {

class ClusterOnABadNetwork : public ClusterOfMachines {
 protected:
  void SetUp() override {
    const std::string reason = Network::WhyNoBridge();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  // Three nodes, and a switch between them that does `harm`.
  void TrainWith(const Harm& harm, int mtu, const std::string& segment_fields) {
    Build(3, mtu);
    bad_ = std::make_unique<BadSwitch>(*network_, harm, Seed());
    WriteTopology(Cat("mtu: ", mtu, " ", segment_fields));
    TrainToAccuracy(Solver(1500));
  }
  const BadSwitch::Counts& counts() const { return bad_->counts(); }
  uint64_t KernelChecksumErrors() const {
    uint64_t sum = 0;
    for (int i = 0; i < 3; ++i) sum += network_->KernelCount(i, "Udp", "InCsumErrors");
    return sum;
  }

  std::unique_ptr<BadSwitch> bad_;
};

TEST_F(ClusterOnABadNetwork, TrainsThroughDuplicationAndReorderingOverUdp) {
  TrainWith({.duplicate = 0.2, .reorder = 0.2}, 9000, "transport: \"udp\"");
  EXPECT_GT(counts().duplicated, 0u);
  EXPECT_GT(counts().reordered, 0u);
  EXPECT_GT(Dropped("old"), 0u);  // positions that came again, or too late
}

TEST_F(ClusterOnABadNetwork, TrainsThroughDuplicationAndReorderingOverRawEthernet) {
  TrainWith({.duplicate = 0.2, .reorder = 0.2}, 1500, "transport: \"packet\"");
  EXPECT_GT(counts().duplicated, 0u);
  EXPECT_GT(counts().reordered, 0u);
  EXPECT_GT(Dropped("old"), 0u);
}

// The kernel drops what fails UDP's checksum, for programs never to see; damage that this
// checksum does not cover is found by the frames' own.
TEST_F(ClusterOnABadNetwork, TrainsThroughDamageOverUdp) {
  TrainWith({.damage = 0.05}, 1500, "transport: \"udp\"");
  EXPECT_GT(KernelChecksumErrors(), 0u);
  EXPECT_LE(KernelChecksumErrors(), counts().damaged);
  EXPECT_GT(Dropped("checksum"), 0u);
  EXPECT_LE(Dropped("checksum"), counts().damaged_unseen);
}

TEST_F(ClusterOnABadNetwork, TrainsThroughDamageOverRawEthernet) {
  TrainWith({.damage = 0.05}, 9000, "transport: \"packet\"");
  EXPECT_GT(Dropped("checksum"), 0u);
  EXPECT_LE(Dropped("checksum"), counts().damaged_unseen);
}

TEST_F(ClusterOnABadNetwork, TrainsThroughAllOfItOverUdp) {
  TrainWith({.lose = 0.05, .duplicate = 0.05, .reorder = 0.05, .damage = 0.05}, 9000,
            "transport: \"udp\" codec: \"int8\"");
  EXPECT_GT(counts().lost, 0u);
  EXPECT_GT(Dropped("checksum"), 0u);
}

// With a key nothing that was altered, or was here before, gets as far as the exchange.
TEST_F(ClusterOnABadNetwork, TrainsThroughAllOfItOverRawEthernetWithAKey) {
  WriteFile(work_ / "key", std::string(64, '7'));
  chmod((work_ / "key").c_str(), 0600);
  TrainWith({.lose = 0.05, .duplicate = 0.05, .reorder = 0.05, .damage = 0.05}, 1500,
            "transport: \"packet\" key_file: \"key\"");
  EXPECT_GT(counts().lost, 0u);
  EXPECT_GT(Dropped("seal"), 0u);
  EXPECT_GT(Dropped("repeated"), 0u);
  EXPECT_EQ(Dropped("checksum"), 0u);
}

}  // namespace
}  // namespace millrace::test
