// strategy { type: "allreduce" } with a merge rule and solvers on GPUs.
#include <chrono>
#include <thread>
#include <tuple>
#include <vector>

#include "test/gpu/synchronous_gpus.h"

namespace millrace::test {
namespace {

struct MergeRule {
  const char* name;
  std::map<std::string, double> params;
};
const MergeRule kRules[] = {{"additive", {}},
                            {"average", {}},
                            {"easgd", {{"pull", 0.2}}},
                            {"outer", {}},
                            {"outer", {{"nesterov", 0}, {"momentum", 0.5}, {"rate", 1}}}};

class DeviceMerge : public OnFakeGpus {
 protected:
  // A name and the solver file for each rule.
  template <typename Visit>
  void ForEachRule(int iterations, int every, Visit visit) {
    for (const MergeRule& rule : kRules) {
      caffe::SolverParameter solver = Workspace::Solver(iterations);
      if (std::string(rule.name) == "additive") {
        solver.set_base_lr(solver.base_lr() / static_cast<float>(GetParam().count));
      }
      const std::string name = StrCat(rule.name, rule.params.size(), "_");
      SCOPED_TRACE(name);
      visit(name, Merging(solver, rule.name, every, rule.params));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Gpus, DeviceMerge, testing::ValuesIn(kGpus), NameOfGpus);

// Momentum lets a solver's own weights run away from the center between merges, so that a rule
// which forgets an array or a factor does not pass.
TEST_P(DeviceMerge, FollowsTheSolversOnCpus) {
  ForEachRule(22, 4, [&](const std::string& name, const caffe::SolverParameter& solver) {
    const Outcome cpus = RunNamed(*work_, name + "cpus", solver, WithSolvers(GetParam().count));
    const Outcome gpus = RunNamed(*work_, name + "gpus", solver, OnGpus());
    ExpectNear(WeightsOf(*work_, name + "cpus", 22), WeightsOf(*work_, name + "gpus", 22), 1e-3f);
    const std::map<int64_t, double> expected = cpus.Losses(), losses = gpus.Losses();
    ASSERT_EQ(losses.size(), 22u);
    for (const auto& [iteration, loss] : losses) EXPECT_NEAR(loss, expected.at(iteration), 2e-3);
  });
}

// Layers write them after the update of the iteration, and before its merge.
TEST_P(DeviceMerge, MergesTheStatisticsOfLayers) {
  WriteNormalized(*work_, 4, "");
  for (const int every : {1, 5}) {
    const caffe::SolverParameter solver = Merging(Workspace::Solver(20), "average", every);
    const std::string cpus = StrCat("cpus", every), gpus = StrCat("gpus", every);
    RunNamed(*work_, cpus, solver, WithSolvers(GetParam().count));
    RunNamed(*work_, gpus, solver, OnGpus());
    ExpectNear(WeightsOf(*work_, cpus, 20), WeightsOf(*work_, gpus, 20), 1e-3f);
  }
}

TEST_P(DeviceMerge, GivesTheSameWeightsForEverySizeOfBuckets) {
  ForEachRule(10, 5, [&](const std::string& name, caffe::SolverParameter solver) {
    for (const int kib : {1, 4096}) {
      (*solver.mutable_strategy()->mutable_param())["bucket_kib"] = kib;
      RunNamed(*work_, StrCat(name, kib), solver, OnGpus());
    }
    EXPECT_TRUE(ModelFile(*work_, name + "1", 10) == ModelFile(*work_, name + "4096", 10));
  });
}

TEST_P(DeviceMerge, ResumesExactly) {
  ForEachRule(24, 4, [&](const std::string& name, caffe::SolverParameter solver) {
    solver.set_snapshot(8);
    RunNamed(*work_, name + "whole", solver, OnGpus());
    EXPECT_EQ(StateOf(*work_, name + "whole", 8).solver_history_size(), GetParam().count - 1);
    TrainOptions options = OnGpus();
    options.snapshot = work_->Snapshot(name + "whole", 8) + ".solverstate";
    RunNamed(*work_, name + "rest", solver, options);
    for (const int iteration : {16, 24}) {
      EXPECT_TRUE(ModelFile(*work_, name + "whole", iteration) ==
                  ModelFile(*work_, name + "rest", iteration))
          << iteration;
    }
  });
}

// The state is that of the host, so a run may move from CPUs to GPUs.
TEST_P(DeviceMerge, ContinuesARunOfCpus) {
  ForEachRule(16, 4, [&](const std::string& name, caffe::SolverParameter solver) {
    solver.set_snapshot(8);
    RunNamed(*work_, name + "cpus", solver, WithSolvers(GetParam().count));
    TrainOptions options = OnGpus();
    options.snapshot = work_->Snapshot(name + "cpus", 8) + ".solverstate";
    RunNamed(*work_, name + "gpus", solver, options);
    ExpectNear(WeightsOf(*work_, name + "cpus", 16), WeightsOf(*work_, name + "gpus", 16), 1e-3f);
  });
}

TEST_P(DeviceMerge, TestsAndSavesTheCenter) {
  ForEachRule(120, 5, [&](const std::string& name, caffe::SolverParameter solver) {
    solver = Workspace::Tested(solver, 60);
    // Outer momentum makes steps about ten times as long.
    if (solver.strategy().merge_rule().type() == "outer") solver.set_base_lr(solver.base_lr() / 4);
    solver.set_snapshot(50);
    const Outcome outcome = RunNamed(*work_, name, solver, OnGpus());
    EXPECT_EQ(outcome.Tests(), (std::vector<int64_t>{0, 60, 120}));
    EXPECT_GE(outcome.FinalOutput("accuracy"), 0.9);
    EXPECT_NE(WeightsOf(*work_, name, 50), WeightsOf(*work_, name, 100));
  });
}

TEST_P(DeviceMerge, StopsAndSnapshotsWaitForAMerge) {
  RequestedCommands commands;
  TrainOptions options = OnGpus();
  options.control = &commands;
  SnapshotThenStop observer(work_.get(), "run", &commands);
  options.observer = &observer;
  const Outcome outcome =
      RunNamed(*work_, "run", Merging(Workspace::Solver(100'000'000), "average", 7), options);
  EXPECT_TRUE(outcome.result.stopped_early);
  EXPECT_EQ(outcome.result.iteration % 7, 0);
  for (const std::string& file : work_->FilesWith("run_iter_")) {
    EXPECT_EQ(std::stoll(file.substr(file.find("run_iter_") + 9)) % 7, 0) << file;
  }
}

// Many calls of the second of two GPUs fail in turn: the run always ends with one line that names
// the solver and the GPU.
TEST(DeviceMergeTest, EndsInOrderWhateverCallFails) {
  const auto work = WorkWithBatch(4, true);
  uint64_t calls = 0;
  const auto run = [&](const std::string& name, uint64_t fails_at) {
    FakeDevice first({.mode = FakeMode::kThread});
    FakeDevice second({.mode = FakeMode::kThread, .ordinal = 1, .fails_at_call = fails_at});
    std::string error;
    try {
      RunNamed(*work, name, Merging(Workspace::Solver(6), "outer", 2), On({&first, &second}));
    } catch (const Error& thrown) {
      error = thrown.what();
    }
    calls = second.calls()->count();
    return error;
  };
  ASSERT_EQ(run("whole", UINT64_MAX), "");
  const uint64_t all = calls;
  ASSERT_GT(all, 100u);
  for (uint64_t n = 0, step = 1; n < all; n += step, step = 1 + n / 8) {
    const std::string error = run(StrCat("run", n), n);
    if (error.empty()) {
      // The number of calls varies. Only the last ones, which free what the run had, cannot throw.
      EXPECT_LT(calls, n + 20);
    } else {
      EXPECT_CONTAINS(error, "fake device 1: an unspecified launch failure") << n;
    }
  }
}

// More and more memory: first the net or the weights do not fit, then the arrays of the merge rule.
TEST(DeviceMergeTest, SaysWhatTheMemoryOfAGpuHasNoRoomFor) {
  const auto work = WorkWithBatch(4, true);
  std::string errors;
  for (size_t bytes = 4096;; bytes += 4096) {
    ASSERT_LT(bytes, size_t{1} << 20) << errors;
    FakeDevice gpu({.memory_bytes = bytes});
    try {
      RunNamed(*work, StrCat("run", bytes), Merging(Workspace::Solver(2), "outer", 2), On({&gpu}));
      break;
    } catch (const Error& error) {
      errors = StrCat(errors, error.what(), "\n");
    }
  }
  EXPECT_CONTAINS(errors, "the center of the merge rule: ");
  EXPECT_CONTAINS(errors, "the velocity of the merge rule: ");
  EXPECT_CONTAINS(errors, "fake device 0");
}

}  // namespace
}  // namespace millrace::test
