// Sessions with solvers on GPUs, emulated by fake devices, or on those of this machine.
#include "millrace/session.h"

#include <cmath>

#include "test/gpu/gpu_support.h"
#include "test/support/test_thread.h"
#include "test/train/train_support.h"
#include "test/train/two_nodes.h"

namespace millrace::test {
namespace {

class GpuSession : public OnChosenDevice {
 protected:
  GpuSession() {
    SmallNet net = work_.Net();
    net.convolution = true;
    work_.WriteNet(net);
  }
  std::unique_ptr<Session> Open(const std::string& name, const caffe::SolverParameter& solver,
                                SessionOptions options) {
    return Session::Open(work_.Write(name, solver), options);
  }
  static SessionOptions On(std::vector<Device*> devices, std::optional<int> solvers = {}) {
    SessionOptions options;
    options.devices = std::move(devices);
    options.solvers = solvers;
    return options;
  }
  // Steps to the end; the last step.
  static SessionStep Train(Session* session) {
    SessionStep last;
    while (const std::optional<SessionStep> step = session->Step()) last = *step;
    return last;
  }
  static double Accuracy(Session* session) {
    for (const TestOutput& output : session->Test()) {
      if (output.name == "accuracy") return output.mean;
    }
    throw Error("no accuracy");
  }
  static std::vector<float> Weights(Session* session) {
    const std::span<float> weights = session->weights();
    return {weights.begin(), weights.end()};
  }

  Workspace work_;
};

INSTANTIATE_TEST_SUITE_P(Modes, GpuSession, testing::ValuesIn(DeviceChoices()), DeviceChoiceName);

// One solver alone, so that batches, masks and updates are the same.
TEST_P(GpuSession, LearnsAsOnAProcessor) {
  const caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(120), 1000);
  const auto cpu = Open("cpu", solver, {});
  const auto gpu = Open("gpu", solver, On({&first()}));
  for (int i = 0; i < 120; ++i) {
    const std::optional<SessionStep> expected = cpu->Step(), step = gpu->Step();
    ASSERT_TRUE(expected && step);
    EXPECT_EQ(step->iteration, i);
    EXPECT_NEAR(step->loss, expected->loss, is_fake() ? 2e-3 : 1e-2) << i;
    // Between steps, tests and snapshots bring in what the GPU has learned, and steps go on.
    if (i == 40) {
      EXPECT_GE(Accuracy(gpu.get()), 0.3);
    } else if (i == 80) {
      EXPECT_EQ(gpu->Snapshot(), work_.Snapshot("gpu", 81) + ".solverstate");
    }
  }
  EXPECT_FALSE(gpu->Step());
  EXPECT_GE(Accuracy(gpu.get()), 0.9);
  const std::vector<float> expected = Weights(cpu.get()), actual = Weights(gpu.get());
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], is_fake() ? 1e-2 : 5e-2) << i;
  }
  // The net that the program sees is on the host.
  EXPECT_TRUE(std::isfinite(gpu->net().Forward()));
  EXPECT_EQ(ErrorOf([&] { gpu->OnGradients([] {}); }),
            "Session::OnGradients: expected a solver on a processor");
  EXPECT_EQ(ErrorOf([&] { gpu->ApplyUpdate(); }),
            "Session::ApplyUpdate: expected a session without GPUs");
}

TEST_P(GpuSession, LearnsWithSolversOnBoth) {
  const auto session =
      Open("run", Workspace::Tested(Workspace::Solver(240), 1000), On({&first(), &other()}, 1));
  int steps = 0, calls = 0;
  session->OnGradients([&] { ++calls; });  // of the solver on the processor
  while (session->Step()) ++steps;
  EXPECT_EQ(steps, 80);
  EXPECT_EQ(calls, 80);
  EXPECT_EQ(session->iteration(), 240);
  EXPECT_GE(Accuracy(session.get()), 0.9);
}

TEST_P(GpuSession, ContinuesFromASnapshot) {
  const caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(120), 1000);
  const auto begun = Open("begun", solver, On({&first()}));
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(begun->Step());
  SessionOptions options = On({&first()});
  options.snapshot = begun->Snapshot();
  const auto other = Open("other", solver, options);
  const auto restored = Open("restored", solver, On({&first()}));
  restored->Restore(options.snapshot);
  for (Session* each : {begun.get(), other.get(), restored.get()}) {
    EXPECT_EQ(each->iteration(), 60);
    EXPECT_EQ(Train(each).iteration, 119);
    EXPECT_GE(Accuracy(each), 0.9);
  }
  const std::vector<float> expected = Weights(begun.get());
  for (Session* each : {other.get(), restored.get()}) {
    const std::vector<float> actual = Weights(each);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], is_fake() ? 1e-2 : 5e-2) << i;
    }
  }
}

// Weights of its own for each solver, without links.
TEST_P(GpuSession, LearnsByAverages) {
  const caffe::SolverParameter solver = Local(Workspace::Tested(Workspace::Solver(160), 1000),
                                              Steps(4) + "merge_rule { type: 'average' }");
  const auto session = Open("run", solver, On({&first(), &other()}));
  Train(session.get());
  EXPECT_EQ(session->iteration(), 160);
  EXPECT_GE(Accuracy(session.get()), 0.9);
}

TEST_P(GpuSession, TrainsInAClusterWithAProcessor) {
  const std::string topology = TwoNodes(work_ / "");
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(400), 1000);
  // Each node reads every second record, and so two of the four classes. On a busy machine it makes
  // dozens of iterations between two exchanges. The rate of one solver is too large for both.
  solver.set_base_lr(0.005f);
  std::vector<std::unique_ptr<Session>> sessions(2);
  std::vector<TestThread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      SessionOptions options = i == 0 ? On({&first()}) : SessionOptions();
      options.topology = topology;
      options.node = i == 0 ? "a" : "b";
      sessions[i] = Open(StrCat("node", i), solver, options);
      Train(sessions[i].get());
      sessions[i]->Finish();
    });
  }
  threads.clear();  // waits for them
  EXPECT_EQ(sessions[0]->iteration(), sessions[1]->iteration());
  const std::vector<float> weights = Weights(sessions[0].get());
  EXPECT_EQ(weights, Weights(sessions[1].get()));
  for (const float weight : weights) ASSERT_TRUE(std::isfinite(weight));
  EXPECT_EQ(Accuracy(sessions[0].get()), Accuracy(sessions[1].get()));
}

TEST_P(GpuSession, RefusesWhatIsNoGpu) {
  const caffe::SolverParameter solver = Workspace::Solver(5);
  EXPECT_EQ(ErrorOf([&] { Open("a", solver, On({&HostDevice()})); }),
            "SessionOptions.devices: expected devices with memory of their own");
  EXPECT_EQ(ErrorOf([&] { Open("a", solver, On({&first()}, -1)); }),
            "SessionOptions.solvers: -1, expected 0 or more");
  SessionOptions other = On({&first()});
  other.precision = "fp16";
  EXPECT_EQ(ErrorOf([&] { Open("a", solver, other); }),
            "--precision=fp16: expected auto, fp32, tf32 or bf16");
  SessionOptions named;
  named.gpus = "0,x";
  EXPECT_EQ(ErrorOf([&] { Open("a", solver, named); }),
            "--gpu=0,x: expected numbers of GPUs, separated by commas, or all");
}

// The error of a device that fails during a step is the step's.
TEST(GpuSessionFailure, IsThatOfTheStep) {
  Workspace work;
  FakeDevice gpu({.mode = FakeMode::kThread, .fails_at = 200});
  SessionOptions options;
  options.devices = {&gpu};
  const std::string error = ErrorOf([&] {
    const auto session = Session::Open(work.Write("run", Workspace::Solver(100'000)), options);
    while (session->Step()) {
    }
  });
  EXPECT_CONTAINS(error, "fake");
}

}  // namespace
}  // namespace millrace::test
