// SIGINT to nodes of a cluster: prints how long they take to exit, and checks what they leave
// behind.
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <map>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "test/netns/cluster_of_machines.h"

namespace millrace::test {
namespace {

using SteadyTime = std::chrono::steady_clock;

class StopOfAClusterOfMachines : public ClusterOfMachines {
 protected:
  // A net of 414,004 parameters, about as large as LeNet; smaller on a slow machine.
  void UseAWideNet() {
    SmallNet net = work_.Net();
    net.batch = 32;
    net.hidden = 6000 / Patience();
    work_.WriteNet(net);
  }
  static caffe::SolverParameter Slowly(caffe::SolverParameter solver) {
    solver.set_base_lr(0.001f);
    return solver;
  }

  // Sends SIGINT to these nodes and waits for their exit. Prints `title` and the time that each
  // took, and checks that they left no files.
  std::vector<CommandResult> Interrupt(const std::string& title, const std::vector<int>& stopped) {
    std::map<int, double> ms;
    std::map<int, int> pids;
    const SteadyTime::time_point begin = SteadyTime::now();
    for (int i : stopped) {
      pids[i] = nodes_.at(i)->pid();
      nodes_.at(i)->Signal(SIGINT);
    }
    const double timeout_ms = 120e3 * Patience();
    while (ms.size() < stopped.size()) {
      const double now =
          std::chrono::duration<double, std::milli>(SteadyTime::now() - begin).count();
      if (now > timeout_ms) break;  // Finish kills the remaining nodes and fails
      for (int i : stopped) {
        if (!ms.contains(i) && HasEnded(pids[i])) ms[i] = now;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::cout << title << ":";
    for (const auto& [i, each] : ms) {
      std::cout << " " << NameOf(i) << " " << static_cast<int>(each) << " ms";
    }
    std::cout << "\n";
    std::vector<CommandResult> results;
    for (int i : stopped) {
      results.push_back(Finish(i));
      EXPECT_FALSE(std::filesystem::exists(StrCat("/proc/", pids[i])));
      ExpectNoFileOf(pids[i]);
    }
    return results;
  }
  // Where nodes do not receive each other's frames within the time limit of a stop, because the
  // machine has much else to do, they say so and each saves.
  void ExpectOneSnapshot() const {
    bool in_time = true;
    for (const char* line : {"left the cluster at the deadline", "Waits no longer for ",
                             "all nodes were stopped; this node writes the final snapshot"}) {
      in_time &= logs_.find(line) == std::string::npos;
    }
    EXPECT_GE(Snapshots(), 1);
    if (in_time) {
      EXPECT_EQ(Snapshots(), 1);
    }
  }

 private:
  static bool HasEnded(int pid) {
    siginfo_t ended{};
    return waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid != 0;
  }
  // No file in shared memory, and no unfinished snapshot.
  void ExpectNoFileOf(int pid) const {
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
      const std::string name = file.path().filename();
      EXPECT_FALSE(name.starts_with("millrace") && name.ends_with(StrCat(".", pid))) << name;
    }
    for (const std::string& name : work_.FilesWith("")) {
      EXPECT_FALSE(name.ends_with(".tmp")) << name;
    }
  }
};

struct Link {
  const char* name;
  bool slow, loses;
};
std::ostream& operator<<(std::ostream& out, const Link& link) { return out << link.name; }

constexpr Link kLinks[] = {
    {"Plain", false, false}, {"TwentyMbits", true, false}, {"TenPercentLoss", false, true}};

class StopOverALink : public StopOfAClusterOfMachines, public testing::WithParamInterface<Link> {
 protected:
  void SetUp() override {
    ClusterOfMachines::SetUp();
    if (IsSkipped()) return;
    const std::string reason = GetParam().loses ? Network::WhyNoLoss() : Network::WhyNoBridge();
    if (!reason.empty()) GTEST_SKIP() << reason;
    Build(3);
    for (int i = 0; i < size_; ++i) {
      if (GetParam().loses) network_->LosePackets(i, 0.1, 0);
      if (!GetParam().slow) continue;
      Slow(i, Network::DeviceOf(i));
      Slow(network_->bridge(), StrCat("port", i));
    }
    WriteTopology("transport: \"udp\"");
    UseAWideNet();
    StartAll(Slowly(Endless()));
    for (int i = 0; i < size_; ++i) AwaitIteration(i, 100);
  }
  std::string TitleOf(const std::string& who) const { return StrCat(GetParam().name, ", ", who); }

 private:
  // Limits what leaves by the device to 20 Mbit/s, with a queue of 100 ms.
  void Slow(int machine, const std::string& device) const {
    network_->Run(machine, {"tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", "20mbit",
                            "burst", "16kb", "limit", "250000"});
  }
};

TEST_P(StopOverALink, OfAllNodesLeavesNothingButOneSnapshot) {
  Interrupt(TitleOf("all at once"), {0, 1, 2});
  ExpectOneSnapshot();
}

TEST_P(StopOverALink, OfOneNodeLeavesTheSnapshotToTheOthers) {
  Interrupt(TitleOf("one that does not lead"), {1});
  EXPECT_EQ(Snapshots(), 0);
  Interrupt(TitleOf("the other two"), {0, 2});
  ExpectOneSnapshot();
}

TEST_P(StopOverALink, OfTheLeaderLeavesTheSnapshotToTheOthers) {
  Interrupt(TitleOf("the one that leads"), {0});
  EXPECT_EQ(Snapshots(), 0);
  Interrupt(TitleOf("the other two"), {1, 2});
  ExpectOneSnapshot();
}

INSTANTIATE_TEST_SUITE_P(Links, StopOverALink, testing::ValuesIn(kLinks),
                         [](const auto& info) { return std::string(info.param.name); });

// The other nodes have not detected the failure yet.
TEST_F(StopOfAClusterOfMachines, AfterTheLeaderHasJustDiedLeavesOneSnapshot) {
  Build(3);
  WriteTopology("transport: \"udp\"");
  StartAll(Endless());
  for (int i = 0; i < 3; ++i) AwaitIteration(i, 100);
  Kill(0);
  Interrupt("the one that leads is dead", {1, 2});
  ExpectOneSnapshot();
}

// Only b may bootstrap the lower segment, since it is nearer to a.
TEST_F(StopOfAClusterOfMachines, WhileANodeJoinsLeavesNoSnapshot) {
  Build(3);
  WriteSegments(
      "segment { name: \"upper\" node: \"a\" node: \"b\" transport: \"udp\" }\n"
      "segment { name: \"lower\" node: \"b\" node: \"c\" transport: \"udp\" port: 29500 }\n");
  Start(2, Endless());
  Await(2, "waiting for the weights of the run");
  const std::vector<CommandResult> results = Interrupt("one that joins", {2});
  EXPECT_CONTAINS(results[0].errors, "Stopped before the weights were there.");
  EXPECT_EQ(Snapshots(), 0);
}

TEST_F(StopOfAClusterOfMachines, WhileNodesWaitForOthersAtMaxIterLeavesOneSnapshot) {
  Build(3);
  WriteTopology("transport: \"udp\"");
  // An iteration of c that is over before the others wait for it is followed by a longer one.
  for (int parts = 20'000;; parts *= 4) {
    caffe::SolverParameter slow = Solver(600);
    slow.set_iter_size(parts);
    for (int i : {0, 1}) Start(i, Solver(600));
    Start(2, slow);
    const auto says = [&](int i, const char* text) {
      return nodes_[i]->ErrorsSoFar().find(text) != std::string::npos;
    };
    const auto waits = [&](int i) { return says(i, "Waiting for the last iterations of c"); };
    const auto over = [&](int i) { return says(i, "Optimization Done"); };
    for (int i : {0, 1}) AwaitThat(i, "is at its end", [&] { return waits(i) || over(i); });
    if (HasFatalFailure()) return;
    if (waits(0) && waits(1) && !over(2)) break;
    for (const std::string& model : Models()) std::filesystem::remove(model);
    for (int i = 0; i < 3; ++i) Kill(i);
  }
  Interrupt("at max_iter", {0, 1, 2});
  ExpectOneSnapshot();
}

}  // namespace
}  // namespace millrace::test
