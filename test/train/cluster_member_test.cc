// The public class ClusterMember: a program's own weights in a cluster.
#include "millrace/cluster.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "millrace/metrics.h"
#include "test/support/etcd_server.h"
#include "test/support/eventually.h"
#include "test/support/free_port.h"
#include "test/support/log_watch.h"
#include "test/support/one_processor.h"
#include "test/support/support.h"
#include "test/train/two_nodes.h"

namespace millrace::test {
namespace {

struct alignas(64) Array {
  std::array<float, 10000> weights{};
};

TEST(ClusterMember, ExchangesTheUpdatesOfAProgramsOwnLoopExactlyOnce) {
  TempDir folder;
  // The end drops a rest of damped progress.
  const std::string topology = TwoNodes(folder / "", "damping: false");
  constexpr int kUpdates = 200;
  auto arrays = std::make_unique<std::array<Array, 2>>();
  std::array<int64_t, 2> iterations{};
  std::barrier both(2);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      ClusterMember member({.topology = topology, .node = i == 0 ? "a" : "b", .layout = 7},
                           (*arrays)[i].weights);
      member.Join();
      both.arrive_and_wait();
      // Small integers: their sums are exact in any order.
      const std::vector<float> update(10000, i == 0 ? 1.0f : 16.0f);
      for (int n = 0; n < kUpdates; ++n) member.Add(update);
      member.Finish();
      iterations[i] = member.iterations();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(iterations[i], 2 * kUpdates);
    for (const float weight : (*arrays)[i].weights) ASSERT_EQ(weight, kUpdates * 17.0f);
  }
}

// A copy of the weights that a node's program trains, beside a node b that may join.
class TrainedCopy : public testing::Test {
 protected:
  TrainedCopy() { a_.Join(); }

  TempDir folder_;
  const std::string topology_ = TwoNodes(folder_ / "", "damping: false");
  const std::unique_ptr<std::array<Array, 2>> arrays_ = std::make_unique<std::array<Array, 2>>();
  ClusterMember a_{{.topology = topology_, .node = "a"}, (*arrays_)[0].weights};
  std::vector<float> own_ = std::vector<float>(10000), base_ = own_;
};

TEST_F(TrainedCopy, IsMerged) {
  own_[9999] = 0.1f;  // exact where nobody else writes
  a_.Merge(own_, base_);
  EXPECT_EQ((*arrays_)[0].weights[9999], 0.1f);
  EXPECT_EQ(base_, own_);
  ClusterMember b({.topology = topology_, .node = "b"}, (*arrays_)[1].weights);
  b.Join();
  b.Update([](size_t offset, std::span<float> part) {
    if (offset == 0) part[3] += 4;
  });
  EXPECT_TRUE(Eventually([&] { return a_.iterations() == 2 && (*arrays_)[0].weights[3] == 4; }));
  own_[3] += 1;
  a_.Merge(own_, base_);
  EXPECT_EQ(own_[3], 5);
  EXPECT_EQ(base_, own_);
  EXPECT_EQ(a_.iterations(), 3);
  b.Leave();
  const std::vector<float> before = base_;
  own_[7] = INFINITY;
  EXPECT_CONTAINS(ErrorOf([&] { a_.Merge(own_, base_); }),
                  "ClusterMember::Merge: element 7 is inf");
  EXPECT_EQ(base_, before);
  EXPECT_EQ((*arrays_)[0].weights[7], 0);
}

TEST_F(TrainedCopy, KeepsIterationsOfANodeAloneForALaterMerge) {
  int64_t steps = 0;
  const auto step = [&] {
    own_[5] = static_cast<float>(++steps);
    const bool kept = a_.CountAlone();
    if (!kept) a_.Merge(own_, base_);
    EXPECT_EQ(a_.iterations(), steps);
    EXPECT_EQ((*arrays_)[0].weights[5] == own_[5], !kept);
    return kept;
  };
  EXPECT_FALSE(step());  // before the first Merge
  EXPECT_TRUE(Eventually(step));
  a_.Merge(own_, base_, 0);
  EXPECT_EQ(a_.iterations(), steps);
  EXPECT_EQ((*arrays_)[0].weights[5], own_[5]);
  // Not for long.
  EXPECT_TRUE(Eventually([&] { return !step(); }));
  ClusterMember b({.topology = topology_, .node = "b"}, (*arrays_)[1].weights);
  b.Join();
  ASSERT_TRUE(Eventually([&] { return a_.nodes() == 2; }));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(step());
  EXPECT_TRUE(
      Eventually([&] { return (*arrays_)[1].weights[5] == own_[5] && b.iterations() == steps; }));
}

// Segments know what they take of the time of the thread that trains, from which they are paced.
TEST(ClusterMember, CountsWhatSegmentsTakeOfTheThreadThatTrains) {
  if (!CountsWaitingTimes()) GTEST_SKIP() << "this kernel does not count waiting times";
  TempDir folder;
  const std::string topology = TwoNodes(folder / "");
  const OneProcessor processor;
  auto arrays = std::make_unique<std::array<Array, 2>>();
  MetricsRegistry registry;
  ClusterMember a({.topology = topology, .node = "a", .metrics = &registry}, (*arrays)[0].weights);
  ClusterMember b({.topology = topology, .node = "b"}, (*arrays)[1].weights);
  a.Join();
  b.Join();
  const auto taken = [&] { return registry.Read().Value("segment s", "solver_share"); };
  EXPECT_EQ(taken(), 0);
  const std::vector<float> update(10000, 1.0f);
  EXPECT_TRUE(Eventually([&] {
    for (int n = 0; n < 1000; ++n) a.Add(update);
    return taken() > 0;
  }));
  a.Leave();
  b.Leave();
}

TEST(ClusterMember, JoinsAndLeavesByARegistry) {
  const std::string reason = EtcdServer::WhyNot();
  if (!reason.empty()) GTEST_SKIP() << reason;
  EtcdServer etcd("127.0.0.1", FreePort());
  etcd.Start();
  TempDir folder;
  WriteFile(
      folder / "segments.prototxt",
      StrCat("segment { name: 's' transport: 'udp' port: ", FreePort(), " damping: false }\n"));
  auto arrays = std::make_unique<std::array<Array, 2>>();
  const auto options = [&](const std::string& address) {
    ClusterOptions options;
    options.topology = folder / "segments.prototxt";
    options.rendezvous = StrCat("etcd://", etcd.endpoint(), "/run?lease=5&address=", address);
    options.nodes = "1:2";
    return options;
  };
  (*arrays)[0].weights[5] = 3;
  ClusterMember a(options("127.0.0.2"), (*arrays)[0].weights);
  a.Join();
  EXPECT_EQ(a.nodes(), 1);
  ClusterMember b(options("127.0.0.3"), (*arrays)[1].weights);
  b.Join();
  EXPECT_EQ((*arrays)[1].weights[5], 3);
  const std::vector<float> update(10000, 1.0f);
  b.Add(update);
  EXPECT_TRUE(Eventually([&] { return (*arrays)[0].weights[5] == 4; }));
  b.Leave();
  a.Leave();
  EXPECT_CONTAINS(ErrorOf([&] {
                    ClusterOptions named = options("127.0.0.2");
                    named.node = "a";
                    ClusterMember(named, (*arrays)[0].weights);
                  }),
                  "--node=a: expected none with --rendezvous");
}

// The program ends a wait, and then decides what to do.
TEST(ClusterMember, PollEndsAWait) {
  TempDir folder;
  const std::string topology = TwoNodes(folder / "");
  auto arrays = std::make_unique<std::array<Array, 2>>();
  bool ends = false;
  const auto poll = [&] {
    if (ends) throw Error("ended by the program");
  };
  ClusterMember a({.topology = topology, .node = "a", .poll = poll}, (*arrays)[0].weights);
  ClusterMember b({.topology = topology, .node = "b"}, (*arrays)[1].weights);
  ends = true;
  EXPECT_EQ(ErrorOf([&] { a.Join(); }), "ended by the program");
  ends = false;
  a.Join();
  b.Join();
  ends = true;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ErrorOf([&] { a.Finish(); }), "ended by the program");
  }
  const std::vector<float> update(10000);
  EXPECT_CONTAINS(ErrorOf([&] { a.Add(update); }), "expected Finish, Leave or Fail");
  ends = false;
  std::thread other([&] { b.Finish(); });
  a.Finish();
  other.join();
}

TEST(ClusterMember, ReportsItsSegmentsToARegistryOfTheProgram) {
  TempDir folder;
  const std::string topology = TwoNodes(folder / "");
  MetricsRegistry registry;
  const auto array = std::make_unique<Array>();
  for (int run = 0; run < 2; ++run) {  // one member after the other
    ClusterMember member({.topology = topology, .node = "a", .metrics = &registry}, array->weights);
    member.Join();
    EXPECT_TRUE(Eventually([&] { return registry.Read().Value("segment s", "in_sync") == 1; }));
    member.Leave();
  }
}

TEST(ClusterMember, HandsItsProgressOverWhenItLeaves) {
  TempDir folder;
  const std::string topology = TwoNodes(folder / "");
  auto arrays = std::make_unique<std::array<Array, 2>>();
  (*arrays)[0].weights[5] = 3;
  ClusterMember a({.topology = topology, .node = "a", .iteration = 50}, (*arrays)[0].weights);
  a.Join();
  EXPECT_EQ(a.iterations(), 50);
  EXPECT_TRUE(a.is_leader());
  {
    ClusterMember b({.topology = topology, .node = "b"}, (*arrays)[1].weights);
    b.Join();
    EXPECT_EQ((*arrays)[1].weights[5], 3);  // of the run, not its own
    EXPECT_EQ(b.nodes(), 2);
    b.Update([](size_t offset, std::span<float> part) {
      if (offset == 0) part[5] += 4;
    });
    b.Leave();
  }
  EXPECT_EQ((*arrays)[0].weights[5], 7);
  EXPECT_EQ(a.iterations(), 51);
  std::vector<float> merged(10000);
  a.ReadMerged(merged);
  EXPECT_EQ(merged[5], 7);
  a.Finish();
}

struct Scaling {
  std::string of_loop, of_topology;
  double most;  // the largest factor; 1: the nodes add their progress
};
void PrintTo(const Scaling& scaling, std::ostream* out) {
  *out << scaling.of_loop << ", topology " << scaling.of_topology;
}

class ScaledLoops : public testing::TestWithParam<Scaling> {};

// Each of three loops moves the weights by its factor in an iteration, as SGD does whose gradient
// is constant.
TEST_P(ScaledLoops, MultiplyTheirRateWhereTheyAverage) {
  TempDir folder;
  const bool averages = GetParam().most > 1;
  // Damped progress is not all merged at the end. A file that names `damping` chooses no averages.
  const std::string topology =
      ThreeNodes(folder / "", StrCat("peer_timeout_ms: 60000 ", averages ? "" : "damping: false"),
                 StrCat("scaling: '", GetParam().of_topology, "'"));
  auto arrays = std::make_unique<std::array<Array, 3>>();
  std::array<double, 3> moved{};
  std::array<float, 3> largest{};
  std::atomic<int> scaled = 0;
  std::barrier all(3);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      ClusterMember member(
          {.topology = topology, .node = StrCat("n", i + 1), .scaling = GetParam().of_loop},
          (*arrays)[i].weights);
      EXPECT_CONTAINS(ErrorOf([&] { (void)member.rate_factor(); }), "has not joined");
      member.Join();
      EXPECT_TRUE(Eventually([&] { return member.nodes() == 3; }));
      all.arrive_and_wait();
      std::vector<float> update(10000);
      while (scaled < 3 && member.iterations() < (averages ? 300'000 : 1000)) {
        const float factor = member.rate_factor();
        if (factor > 1 && largest[i] <= 1) ++scaled;
        largest[i] = std::max(largest[i], factor);
        std::fill(update.begin(), update.end(), factor);
        moved[i] += factor;
        member.Add(update);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      member.Finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(scaled, averages ? 3 : 0);
  for (const float factor : largest) EXPECT_LE(factor, GetParam().most + 1e-4);
  const double sum = moved[0] + moved[1] + moved[2];
  for (const float weight : (*arrays)[0].weights) {
    ASSERT_NEAR(weight / sum, averages ? 1.0 / 3 : 1, 0.02);
  }
  for (const Array& array : *arrays) EXPECT_EQ(array.weights, (*arrays)[0].weights);
}

INSTANTIATE_TEST_SUITE_P(ClusterMember, ScaledLoops,
                         testing::Values(Scaling{"linear", "linear", 3},
                                         Scaling{"root", "linear", 1.7320508},
                                         Scaling{"none", "linear", 1},
                                         Scaling{"linear", "none", 1}));

TEST(ClusterMember, RefusesWhatItCannotUse) {
  TempDir folder;
  const std::string topology = TwoNodes(folder / "");
  auto array = std::make_unique<Array>();
  const std::span<float> weights(array->weights);
  const auto refusal = [](const ClusterOptions& options, std::span<float> array) {
    return ErrorOf([&] { ClusterMember member(options, array); });
  };
  EXPECT_CONTAINS(refusal({.topology = "", .node = "a"}, weights), "ClusterOptions.topology");
  const ClusterOptions own{.topology = topology, .node = "a"};
  EXPECT_CONTAINS(refusal(own, weights.subspan(1)), "multiple of 64");
  EXPECT_CONTAINS(refusal(own, weights.first(0)), "at least one weight");
  EXPECT_CONTAINS(refusal({.topology = topology, .node = "x"}, weights), "x");
  ClusterOptions scaled = own;
  scaled.scaling = "square";
  EXPECT_EQ(refusal(scaled, weights),
            "ClusterOptions.scaling: \"square\" given, expected \"none\", \"linear\" or \"root\"");
  scaled.scaling = "root";
  scaled.warmup = -1;
  EXPECT_EQ(refusal(scaled, weights), "ClusterOptions.warmup: -1 given, expected at least 0");
  ClusterMember a(own, weights);
  a.Join();
  EXPECT_EQ(a.rate_factor(), 1);
  std::vector<float> few(3);
  EXPECT_CONTAINS(ErrorOf([&] { a.Add(few); }), "3 values for 10000 weights");
  EXPECT_CONTAINS(ErrorOf([&] { a.ReadMerged(few); }), "room for 3 of 10000");
  EXPECT_CONTAINS(ErrorOf([&] { a.Merge(few, few); }), "3 and 3 values for 10000 weights");
  std::vector<float> copy(10000), base(10000);
  EXPECT_CONTAINS(ErrorOf([&] { a.Merge(copy, base, -1); }),
                  "-1 iterations, expected 0 to 1000000");
  auto other = std::make_unique<Array>();
  ClusterMember b({.topology = topology, .node = "b", .layout = 1}, other->weights);
  EXPECT_CONTAINS(ErrorOf([&] { b.Join(20); }), "another net");
}

TEST(ClusterMember, RefusesCallsOutOfOrder) {
  TempDir folder;
  const std::string topology = TwoNodes(folder / "");
  auto array = std::make_unique<Array>();
  ClusterMember a({.topology = topology, .node = "a"}, array->weights);
  const std::vector<float> update(array->weights.size());
  const std::string before = ": this node has not joined, expected a call of Join before";
  EXPECT_EQ(ErrorOf([&] { a.Add(update); }), "ClusterMember::Add" + before);
  EXPECT_EQ(ErrorOf([&] { a.Update([](size_t, std::span<float>) {}); }),
            "ClusterMember::Update" + before);
  EXPECT_EQ(ErrorOf([&] { a.Finish(); }), "ClusterMember::Finish" + before);
  a.Join();
  a.Join();  // has no effect
  a.Add(update);
  a.Finish();
  const std::string after = ": this node has left the cluster or has failed";
  EXPECT_EQ(ErrorOf([&] { a.Finish(); }), "ClusterMember::Finish" + after);
  EXPECT_EQ(ErrorOf([&] { a.Leave(); }), "ClusterMember::Leave" + after);
  EXPECT_EQ(ErrorOf([&] { a.Join(); }), "ClusterMember::Join" + after);
  EXPECT_EQ(ErrorOf([&] { a.Add(update); }), "ClusterMember::Add" + after);
}

// The others do not wait for it, and end with its error if it may have spoilt the weights.
TEST(ClusterMember, TellsTheOthersThatItHasFailed) {
  for (const bool not_finite : {false, true}) {
    SCOPED_TRACE(not_finite);
    TempDir folder;
    const std::string topology = TwoNodes(folder / "");
    auto arrays = std::make_unique<std::array<Array, 2>>();
    ClusterMember a({.topology = topology, .node = "a"}, (*arrays)[0].weights);
    a.Join();
    const LogWatch log;
    auto b = std::make_unique<ClusterMember>(ClusterOptions{.topology = topology, .node = "b"},
                                             (*arrays)[1].weights);
    b->Join();
    if (not_finite) {
      std::vector<float> update(10000);
      update[7] = NAN;
      EXPECT_CONTAINS(ErrorOf([&] { b->Add(update); }), "ClusterMember::Add: element 7 is ");
      EXPECT_EQ((*arrays)[1].weights[7], 0);
      EXPECT_CONTAINS(ErrorOf([&] { b->Finish(); }), "has failed");
    } else {
      b->Fail("no more data");
    }
    EXPECT_TRUE(Eventually([&] { return log.Saw("node b has failed: "); }));
    b.reset();
    std::string error;
    try {
      a.Finish();
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    EXPECT_EQ(error.rfind("node b ended with a loss that is not finite", 0) == 0, not_finite)
        << error;
    EXPECT_EQ(error.empty(), !not_finite);
  }
}

}  // namespace
}  // namespace millrace::test
