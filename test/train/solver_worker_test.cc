#include "train/solver_worker.h"

#include "strategy/hogwild.h"
#include "test/support/fake_clock.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// At the end of a run, other nodes receive this duration to bound their wait.
TEST(SolverWorker, KnowsHowLongItsLongestIterationTook) {
  Workspace work;
  TrainOptions options;
  options.solver_file = work.Write("run", Workspace::Solver(5));
  const SolverConfig config = LoadSolverConfig(options.solver_file);
  const LrPolicy policy(config.param);
  DataService data{DataOptions{}};
  auto net = std::make_unique<BuiltNet>(config.train.param, config.train.source,
                                        TrainNetOptions(config, &data));
  const auto weights = WeightBuffer::CreatePrivate(net->layout());
  net->BindWeights(weights->data());
  net->FillWeights();
  const SteadyClock time;
  Reporter reporter(config, options, time, {});
  reporter.Start("net", 0, 8);
  Tester tester(config, net->layout(), weights->data(), &data, &reporter);
  SnapshotCollector snapshots(1);
  SnapshotWriter writer(work / "run", "", &time, [](int64_t, const std::string&) {});
  // 1 ms passes at each reading, and 1 s at the fourth.
  const FakeClock clock([](int n) { return n == 4 ? 1'000'000'000 : 1'000'000; });
  std::atomic<bool> stop{false};
  RunRequests requests;
  const SharedRun run{
      .config = config,
      .policy = policy,
      .weights = *weights,
      .data = data,
      .reporter = reporter,
      .tester = tester,
      .snapshots = snapshots,
      .writer = writer,
      .clock = clock,
      .stop = stop,
      .requests = requests,
      .make_strategy = [&](int) { return std::make_unique<HogwildStrategy>(weights.get()); }};
  SolverWorker worker(0, run, std::move(net));
  EXPECT_EQ(worker.max_iteration_ns(), 0);
  worker.Run();
  EXPECT_EQ(weights->clock().claimed(), 5);
  // Each iteration reads the clock at its begin and end: the fourth reading ends the second one.
  EXPECT_EQ(worker.max_iteration_ns(), 1'000'000'000);
}

}  // namespace
}  // namespace millrace::test
