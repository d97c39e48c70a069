// Replicas on devices follow the host's, and it follows them: nothing that a solver adds is lost or
// arrives twice.
#include "cluster/device_link.h"

#include "test/gpu/gpu_support.h"
#include "test/support/test_thread.h"

namespace millrace::test {
namespace {

constexpr int64_t kSize = 20'000;  // three chunks

// With two devices, or with two replicas on one.
class Links : public OnChosenDevice {};

TEST_P(Links, DevicesBeginWithTheWeightsOfTheHost) {
  LinkedReplicas replicas(kSize, {&first(), &other()}, 3.5f);
  replicas.Join();
  EXPECT_TRUE(replicas.DeviceHolds(0, 3.5f));
  EXPECT_TRUE(replicas.DeviceHolds(1, 3.5f));
  replicas.Leave();
  EXPECT_TRUE(replicas.HostHolds(3.5f));
}

// Solvers on two devices and on the host, each in a thread, add while all links exchange.
TEST_P(Links, BringTheHostEveryAdditionOnce) {
  LinkedReplicas replicas(kSize, {&first(), &other()}, 1);
  replicas.Join();
  const int iterations = 150;
  std::vector<TestThread> threads;
  const auto run = [&](auto make) {
    threads.emplace_back([&, make] {
      const auto solver = make();
      for (int i = 0; i < iterations; ++i) {
        solver->Iterate(1);
        // So that exchanges happen between the iterations as well as beside them.
        if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      solver->Finish();
    });
  };
  run([&] { return replicas.DeviceSolver(0, 1); });
  run([&] { return replicas.DeviceSolver(1, 100); });
  run([&] { return replicas.HostSolver(10'000); });
  threads.clear();  // waits for them
  replicas.Leave();
  EXPECT_TRUE(replicas.HostHolds(1 + iterations * 10101.0f));
  EXPECT_EQ(replicas.host().clock().global(), 3 * iterations);
  EXPECT_GT(replicas.link(0).merges_into_host(), 0u);
}

// Also what another device has added: the host's link passes it on.
TEST_P(Links, BringEveryDeviceWhatTheOthersAdd) {
  LinkedReplicas replicas(kSize, {&first(), &other()});
  replicas.Join();
  const auto first = replicas.DeviceSolver(0, 1), host = replicas.HostSolver(16);
  first->Iterate(3);
  first->Finish();
  host->Iterate(5);
  EXPECT_TRUE(Await([&] {
    return replicas.HostHolds(83) && replicas.DeviceHolds(0, 83) && replicas.DeviceHolds(1, 83);
  }));
  replicas.Leave();
  EXPECT_TRUE(replicas.HostHolds(83));
}

TEST_P(Links, AreSilentAtRest) {
  LinkedReplicas replicas(kSize, {&first()});
  replicas.Join();
  replicas.DeviceSolver(0, 1)->Iterate(4);
  ASSERT_TRUE(Await([&] { return replicas.HostHolds(4); }));
  const auto moved = [&] {
    uint64_t frames = 0;
    for (const NetSegment* end : {&replicas.link(0).host_end(), &replicas.link(0).device_end()}) {
      const ExchangeStats stats = end->metrics().exchange();
      frames += stats.sent[static_cast<size_t>(FrameType::kPosition)] +
                stats.sent[static_cast<size_t>(FrameType::kDiff)];
    }
    return frames;
  };
  // Sooner or later: the last position may still have to be acknowledged.
  EXPECT_TRUE(Await([&] {
    const uint64_t before = moved();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return before == moved();
  }));
  replicas.Leave();
}

TEST_P(Links, EndWithAllProgressOfTheDevice) {
  LinkedReplicas replicas(kSize, {&first(), &other()});
  replicas.Join();
  replicas.DeviceSolver(0, 1)->Iterate(7);
  replicas.DeviceSolver(1, 10)->Iterate(7);
  // No queue is synchronized and no exchange is awaited before this.
  replicas.Leave();
  EXPECT_TRUE(replicas.HostHolds(77));
}

TEST_P(Links, KeepToTheirRate) {
  // The weights are 80 kB, so that ten sweeps in both directions take half a second.
  LinkedReplicas replicas(kSize, {&first()}, 0, 2e6);
  replicas.Join();
  const SteadyClock clock;
  const double begin = clock.NowSeconds();
  const auto wire = [&] { return replicas.link(0).device_end().metrics().wire_bytes(); };
  const uint64_t before = wire();
  const auto solver = replicas.DeviceSolver(0, 1);
  int iterations = 0;
  while (clock.NowSeconds() < begin + 0.3) {
    solver->Iterate(1);
    ++iterations;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // The bytes are read first: the link goes on sending while this thread does not run.
  const auto sent = static_cast<double>(wire() - before);
  const double seconds = clock.NowSeconds() - begin;
  // Frames of the largest size above the rate: the pacer's burst is two, and a fetch of four that
  // begins with one may overdraw it by three.
  EXPECT_LT(sent, 2e6 * seconds + 5 * 4.0 * 8300);
  solver->Finish();
  replicas.Leave();
  EXPECT_TRUE(replicas.HostHolds(static_cast<float>(iterations)));
}

INSTANTIATE_TEST_SUITE_P(Modes, Links, testing::ValuesIn(DeviceChoices()), DeviceChoiceName);
INSTANTIATE_TEST_SUITE_P(
    OneDevice, Links,
    testing::Values(DeviceChoice{.mode = FakeMode::kLate, .cuda = {}, .alone = true},
                    DeviceChoice{.mode = FakeMode::kThread, .cuda = {}, .alone = true}),
    DeviceChoiceName);

TEST(Link, PublishesTheMetricsOfTheHostsEnd) {
  FakeDevice device({.ordinal = 3});
  LinkedReplicas replicas(100, {&device});
  replicas.Join();
  replicas.Leave();
  bool found = false;
  for (const auto& metric : replicas.registry().Read().metrics) {
    found |= metric.group == "segment gpu3" && metric.value > 0;
  }
  EXPECT_TRUE(found);
}

TEST(Link, WorksForASingleWeight) {
  FakeDevice device;
  LinkedReplicas replicas(1, {&device}, 5);
  replicas.Join();
  replicas.DeviceSolver(0, 1)->Iterate(2);
  replicas.Leave();
  EXPECT_TRUE(replicas.HostHolds(7));
}

TEST(Link, LeavesAtOnceBeforeTheDeviceHasJoined) {
  FakeDevice device;
  LinkedReplicas replicas(kSize, {&device}, 5);
  replicas.Leave();
  EXPECT_TRUE(replicas.HostHolds(5));
}

TEST(Link, ReportsADeviceThatHasFailed) {
  FakeDevice device({.mode = FakeMode::kThread});
  LinkedReplicas replicas(kSize, {&device});
  replicas.Join();
  device.last_queue().Fail("it has fallen off the bus");
  replicas.HostSolver(1)->Iterate(1);
  ASSERT_TRUE(Await([&] { return replicas.errors().failed(); }));
  EXPECT_THROW(replicas.errors().RethrowIfFailed(), DeviceError);
  EXPECT_EQ(ErrorOf([&] { replicas.errors().RethrowIfFailed(); }),
            "fake device 0: it has fallen off the bus");
  replicas.links().Stop();
  EXPECT_TRUE(replicas.HostHolds(1));
}

TEST(Link, BringsTheProgressOfADeviceWhenAnotherHasFailed) {
  FakeDevice first, second({.mode = FakeMode::kThread, .ordinal = 1});
  LinkedReplicas replicas(kSize, {&first, &second});
  replicas.Join();
  first.last_queue().Fail("it has fallen off the bus");
  const auto solver = replicas.DeviceSolver(1, 1);
  solver->Iterate(5);
  solver->Finish();
  // The host passes that on to the first device.
  ASSERT_TRUE(Await([&] { return replicas.errors().failed(); }));
  solver->Iterate(3);
  solver->Finish();
  replicas.links().Leave();
  EXPECT_TRUE(Await([&] { return replicas.links().left(); }));
  replicas.links().Stop();
  EXPECT_TRUE(replicas.HostHolds(8));
}

// Without the order, an update and a kernel of the exchange that run at the same time would undo
// each other's additions.
TEST(WriteOrder, RunsChangesOfTwoQueuesInTheOrderOfTheirEnqueuing) {
  for (const FakeMode mode : {FakeMode::kAtOnce, FakeMode::kLate, FakeMode::kThread}) {
    FakeDevice device({.mode = mode});
    const auto one = device.MakeQueue(QueuePriority::kNormal);
    const auto two = device.MakeQueue(QueuePriority::kLow);
    WriteOrder order;
    std::vector<int> ran;
    for (int i = 0; i < 100; ++i) {
      Queue& queue = i % 3 == 0 ? *one : *two;
      order.Write(queue, [&] {
        FakeQueue::Of(queue).Enqueue([&ran, i] {
          if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
          ran.push_back(i);
        });
      });
    }
    // The last to be enqueued, so that work that runs late runs all work before it.
    one->Synchronize();
    two->Synchronize();
    ASSERT_EQ(ran.size(), 100u);
    EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end())) << ModeName(mode);
  }
}

// What an iteration enqueues on `device`, whose work runs late: whether the host has waited for the
// gradient.
bool WaitsForGradient(FakeQueue* queue, DeviceStrategy* strategy, UpdateRule* rule) {
  bool computed = false;
  queue->Enqueue([&] { computed = true; });
  strategy->Update(1, nullptr, rule);
  const bool waited = computed;
  queue->Synchronize();
  return waited;
}

TEST(DeviceStrategy, WaitsForItsGradientOnlyIfOthersChangeTheWeights) {
  FakeDevice device({.mode = FakeMode::kLate});
  const auto host = WeightBuffer::CreatePrivate(FlatLayout(10));
  DeviceWeights weights(&device, 10);
  const auto queue = device.MakeQueue(QueuePriority::kNormal);
  const auto link = device.MakeQueue(QueuePriority::kLow);
  caffe::SolverParameter param;
  param.set_type("SGD");
  const auto rule = UpdateRuleRegistry::Get().Create(param, {}, 10, *queue);
  DeviceStrategy strategy(&weights, &host->clock());
  strategy.Prepare(rule.get());
  const auto waits = [&] {
    return WaitsForGradient(&FakeQueue::Of(*queue), &strategy, rule.get());
  };
  EXPECT_FALSE(waits());
  EXPECT_FALSE(waits());
  weights.order().Read(*link, [] {});
  EXPECT_FALSE(waits());
  weights.order().Write(*link, [] {});
  EXPECT_TRUE(waits());
  EXPECT_FALSE(waits());
}

}  // namespace
}  // namespace millrace::test
