// Clusters on faulty networks, slow networks and stalled machines: bad frames are detected and
// counted, and training continues.
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <iostream>

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

  // Trains three nodes over a switch that does `harm`.
  void TrainWith(const Harm& harm, int mtu, const std::string& segment_fields) {
    Build(3, mtu);
    bad_ = std::make_unique<BadSwitch>(*network_, harm, Seed());
    WriteTopology(StrCat("mtu: ", mtu, " ", segment_fields));
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
  EXPECT_GT(Dropped("old"), 0u);  // positions that were duplicated or too late
}

TEST_F(ClusterOnABadNetwork, TrainsThroughDuplicationAndReorderingOverRawEthernet) {
  TrainWith({.duplicate = 0.2, .reorder = 0.2}, 1500, "transport: \"packet\"");
  EXPECT_GT(counts().duplicated, 0u);
  EXPECT_GT(counts().reordered, 0u);
  EXPECT_GT(Dropped("old"), 0u);
}

// The kernel drops datagrams with a bad UDP checksum. The checksum of the frames themselves detects
// damage that the UDP checksum does not cover.
TEST_F(ClusterOnABadNetwork, TrainsThroughDamageOverUdp) {
  TrainWith({.damage = 0.05}, 1500, "transport: \"udp\"");
  EXPECT_GT(KernelChecksumErrors(), 0u);
  EXPECT_LE(KernelChecksumErrors(), counts().damaged);
  EXPECT_GT(Dropped("bad_checksum"), 0u);
  EXPECT_LE(Dropped("bad_checksum"), KernelChecksumErrors());
  EXPECT_EQ(Dropped("overrun"), 0u);
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

// With a key no altered or replayed frame reaches the exchange.
TEST_F(ClusterOnABadNetwork, TrainsThroughAllOfItOverRawEthernetWithAKey) {
  WriteFile(work_ / "key", std::string(64, '7'));
  chmod((work_ / "key").c_str(), 0600);
  TrainWith({.lose = 0.05, .duplicate = 0.05, .reorder = 0.05, .damage = 0.05}, 1500,
            "transport: \"packet\" key_file: \"key\"");
  EXPECT_GT(counts().lost, 0u);
  EXPECT_GT(Dropped("bad_tag"), 0u);
  EXPECT_GT(Dropped("replayed"), 0u);
  EXPECT_EQ(Dropped("checksum"), 0u);
}

// Node c receives nothing, and what it sends arrives: nodes a and b go on together without it.
TEST_F(ClusterOnABadNetwork, LeavesOutANodeThatReceivesNothingUntilItDoesAgain) {
  for (const char* transport : {"udp", "packet"}) {
    Build(3);
    WriteTopology(StrCat("transport: \"", transport, "\""));
    StartAll(Endless());
    for (int i : {1, 2}) Await(i, "Joined the run");
    // The port to c carries no frame that exceeds 40 bytes.
    const auto harm = [&](const char* what) {
      network_->Run(network_->bridge(), {"tc", "qdisc", what, "dev", "port2", "root", "tbf", "rate",
                                         "8kbit", "burst", "40", "limit", "40"});
    };
    harm("add");
    for (int i : {0, 1}) Await(i, "Node c is unresponsive on segment lan");
    for (int i : {0, 1}) AwaitIteration(i, Iteration(i) + 500);
    harm("del");
    for (int i : {0, 1}) Await(i, "Node c is responsive again on segment lan");
    // Looked for before the nodes leave: one that has left is silent, too.
    for (int i : {0, 1}) {
      const std::string log = nodes_[i]->ErrorsSoFar();
      EXPECT_EQ(log.find(StrCat("Node ", NameOf(1 - i), " is unresponsive")), std::string::npos)
          << transport;
    }
    for (int i : {0, 1, 2}) nodes_[i]->Signal(SIGINT);
    for (int i : {0, 1, 2}) Finish(i);
  }
}

// Node c's link carries 1 Mbit/s of what the others want to send, and of two frames that follow
// each other the second waits. Their windows fit its queue, so they wait for c and nothing is lost.
TEST_F(ClusterOnABadNetwork, ASlowReceiverSlowsItsSendersAndLosesNothing) {
  for (const char* transport : {"udp", "packet"}) {
    Build(3);
    network_->Run(network_->bridge(), {"tc", "qdisc", "add", "dev", "port2", "root", "tbf", "rate",
                                       "1mbit", "burst", "2kb", "limit", "1000000"});
    WriteTopology(
        StrCat("transport: \"", transport, "\" option { key: \"window_frames\" value: \"32\" }"));
    TrainToAccuracy(Solver(1500));
    const std::string queue =
        network_->Run(network_->bridge(), {"tc", "-s", "qdisc", "show", "dev", "port2"});
    EXPECT_CONTAINS(queue, "(dropped 0, overlimits ");
    EXPECT_EQ(queue.find("overlimits 0 "), std::string::npos) << "was never full: " << queue;
    EXPECT_EQ(Dropped("overrun"), 0u);
    EXPECT_EQ(Dropped("failed"), 0u);
  }
}

// A node is stopped, and its ring has far less room than its peer's window: frames that do not fit
// are counted and sent again.
TEST_F(ClusterOnABadNetwork, GoesOnThoughTheRingOfANodeThatStoodStillOverflowed) {
  Build(2);
  WriteTopology(
      "transport: \"packet\" option { key: \"window_frames\" value: \"10000\" } "
      "option { key: \"ring_blocks\" value: \"2\" } "
      "option { key: \"silence_ms\" value: \"3600000\" }");
  StartAll(Endless());
  for (int i : {0, 1}) AwaitIteration(i, 200);
  nodes_[1]->Signal(SIGSTOP);
  // More than the ring holds: 2 blocks of 8 KiB (3 frames and a head).
  const uint64_t sent = network_->BytesSent(0);
  AwaitThat(0, "sends more than the ring of its peer holds",
            [&] { return network_->BytesSent(0) - sent > 4 * 16384; });
  nodes_[1]->Signal(SIGCONT);
  AwaitIteration(1, Iteration(0) + 40);
  for (int i : {0, 1}) nodes_[i]->Signal(SIGINT);
  for (int i : {0, 1}) Finish(i);
  EXPECT_GT(Dropped("overrun"), 0u);
  EXPECT_EQ(Snapshots(), 1);
}

// No node's interface sends more than its rate plus 3 %, whatever the others do. The count is in
// bytes of whole Ethernet frames, those of the transport itself included, over the elapsed time.
// The test does not check how close the rate comes to the limit from below: that depends on the
// machine.
TEST_F(ClusterOnABadNetwork, NoNodeSendsMoreThanItsMaxRate) {
  using Clock = std::chrono::steady_clock;
  constexpr double kMbits = 4, kBytesPerSecond = kMbits * 1e6 / 8;
  for (const char* options :
       {"transport: \"udp\" option { key: \"gso\" value: \"0\" }", "transport: \"packet\""}) {
    Build(2);
    WriteTopology(StrCat(options, " max_mbps: ", kMbits));
    StartAll(Endless());
    for (int i : {0, 1}) AwaitIteration(i, 200);
    // Before the first reading and after the last: the measured time is never too short.
    const Clock::time_point begin = Clock::now();
    const uint64_t before[] = {network_->BytesSent(0), network_->BytesSent(1)};
    AwaitThat(0, "sends what two seconds allow",
              [&] { return network_->BytesSent(0) - before[0] >= 2 * kBytesPerSecond; });
    for (int i : {0, 1}) {
      const auto sent = static_cast<double>(network_->BytesSent(i) - before[i]);
      const double allowed =
          kBytesPerSecond * std::chrono::duration<double>(Clock::now() - begin).count();
      EXPECT_LE(sent, 1.03 * allowed) << options;
      std::cout << NameOf(i) << ": " << 100 * sent / allowed << " % of its rate\n";
    }
    for (int i : {0, 1}) nodes_[i]->Signal(SIGINT);
    for (int i : {0, 1}) Finish(i);
  }
}

}  // namespace
}  // namespace millrace::test
