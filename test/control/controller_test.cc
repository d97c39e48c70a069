#include "millrace/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "control/worker_watch.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using testing::ElementsAre;

// A worker whose run goes on as a test says.
class FakeWorker {
 public:
  FakeWorker() {
    status_.set_state("training");
    status_.set_pid(1);
    status_.set_tests_done(0);
    status_.set_snapshots_written(0);
  }
  WorkerConnection connection() {
    return {.status =
                [this] {
                  if (!answers_) throw Error("no answer");
                  return status_;
                },
            .post =
                [this](const std::string& path, const std::string& body) {
                  if (!answers_) throw Error("no answer");
                  asked_.push_back(path + body);
                  if (path == "/v1/pause") status_.set_state("paused");
                  if (path == "/v1/resume") status_.set_state("training");
                }};
  }
  void Train(int iterations) { status_.set_iteration(status_.iteration() + iterations); }
  void Test(double accuracy) {
    status_.clear_test();
    control_api::Test* const test = status_.add_test();
    test->set_iteration(status_.iteration());
    (*test->mutable_output())["accuracy"] = accuracy;
    status_.set_tests_done(status_.tests_done() + 1);
  }
  void Save() {
    status_.set_snapshot(StrCat("iter_", status_.iteration(), ".solverstate"));
    status_.set_snapshots_written(status_.snapshots_written() + 1);
  }
  std::vector<std::string> Take() { return std::exchange(asked_, {}); }

  control_api::Status status_;
  bool answers_ = true;

 private:
  std::vector<std::string> asked_;
};

// Says what a test has put into `next`.
class Scripted : public Controller {
 public:
  Instruction Next(const Worker& worker) override {
    seen.push_back(worker);
    return next;
  }
  void Left(const Worker& worker) override { left.push_back(worker.state); }
  Instruction next = Instruction::Train(100);
  std::vector<Worker> seen;
  std::vector<std::string> left;
};

TEST(WorkerWatchTest, AsksAgainWhenTheWorkerHasDoneWhatItWasTold) {
  FakeWorker worker;
  Scripted controller;
  WorkerWatch watch("a", worker.connection(), 10, 60);
  EXPECT_TRUE(watch.Look(0, &controller));
  worker.Train(99);
  EXPECT_FALSE(watch.Look(1, &controller));
  worker.Train(1);
  controller.next = Instruction::Test();
  EXPECT_TRUE(watch.Look(2, &controller));
  worker.Train(1000);
  EXPECT_FALSE(watch.Look(3, &controller));
  worker.Test(0.5);
  controller.next = Instruction::Snapshot();
  EXPECT_TRUE(watch.Look(4, &controller));
  EXPECT_EQ(controller.seen.back().outputs.at("accuracy"), 0.5);
  EXPECT_FALSE(watch.Look(5, &controller));
  worker.Save();
  controller.next = Instruction::SetLearningRate(0.25f);
  EXPECT_TRUE(watch.Look(6, &controller));
  EXPECT_EQ(controller.seen.back().snapshot, "iter_1100.solverstate");
  controller.next = Instruction::Pause();
  EXPECT_TRUE(watch.Look(7, &controller));  // a rate is done at once
  controller.next = Instruction::Train(5);
  EXPECT_TRUE(watch.Look(8, &controller));
  controller.next = Instruction::Stop();
  worker.Train(5);
  EXPECT_TRUE(watch.Look(9, &controller));
  EXPECT_FALSE(watch.Look(10, &controller));
  EXPECT_THAT(worker.Take(),
              ElementsAre("/v1/test", "/v1/snapshot", "/v1/learning_rate{\"rate\":0.25}",
                          "/v1/pause", "/v1/resume", "/v1/stop"));
  worker.status_.set_state("ended");
  EXPECT_FALSE(watch.Look(11, &controller));
  EXPECT_TRUE(watch.gone());
  EXPECT_THAT(controller.left, ElementsAre("ended"));
}

TEST(WorkerWatchTest, WaitsForAStart) {
  FakeWorker worker;
  Scripted controller;
  WorkerWatch watch("a", worker.connection(), 10, 60);
  worker.answers_ = false;
  EXPECT_FALSE(watch.Look(0, &controller));
  EXPECT_FALSE(watch.Look(59, &controller));
  EXPECT_FALSE(watch.gone());
  worker.answers_ = true;
  worker.status_.set_state("starting");
  EXPECT_FALSE(watch.Look(59.5, &controller));
  worker.status_.set_state("training");
  EXPECT_TRUE(watch.Look(60, &controller));
}

// A worker that does not answer for long is lost; when it is back it gets new instructions, also
// if it was started again within that time.
TEST(WorkerWatchTest, NoticesLostWorkersAndTheirReturn) {
  FakeWorker worker;
  Scripted controller;
  WorkerWatch watch("a", worker.connection(), 10, 60);
  EXPECT_TRUE(watch.Look(0, &controller));
  worker.answers_ = false;
  EXPECT_FALSE(watch.Look(9, &controller));
  EXPECT_TRUE(controller.left.empty());
  EXPECT_FALSE(watch.Look(10, &controller));
  EXPECT_FALSE(watch.Look(11, &controller));
  EXPECT_THAT(controller.left, ElementsAre("lost"));
  worker.answers_ = true;
  EXPECT_TRUE(watch.Look(12, &controller));
  EXPECT_FALSE(watch.gone());
  worker.status_.set_pid(2);
  EXPECT_TRUE(watch.Look(13, &controller));
}

// What the worker could not be told is decided anew.
TEST(WorkerWatchTest, DecidesAnewAfterARefusal) {
  FakeWorker worker;
  Scripted controller;
  bool refuses = true;
  WorkerConnection connection = worker.connection();
  connection.post = [&, post = connection.post](const std::string& path, const std::string& body) {
    if (refuses) throw Error("the run is about to end");
    post(path, body);
  };
  WorkerWatch watch("a", connection, 10, 60);
  controller.next = Instruction::Test();
  EXPECT_FALSE(watch.Look(0, &controller));
  refuses = false;
  EXPECT_TRUE(watch.Look(1, &controller));
  EXPECT_THAT(worker.Take(), ElementsAre("/v1/test"));
}

// Runs early stopping over tests with these accuracies; returns how many it has asked for.
int TestsUntilStop(EarlyStopping* controller, const std::vector<double>& accuracies) {
  FakeWorker worker;
  WorkerWatch watch("a", worker.connection(), 10, 60);
  int tests = 0;
  for (int i = 0; i < 1000; ++i) {
    watch.Look(i, controller);
    for (const std::string& path : worker.Take()) {
      if (path == "/v1/test") worker.Test(accuracies.at(tests++));
      if (path == "/v1/snapshot") worker.Save();
      if (path == "/v1/stop") return tests;
    }
    worker.Train(50);
  }
  return -1;
}

TEST(EarlyStoppingTest, StopsWithoutABetterTestAndKeepsTheBest) {
  EarlyStopping controller({.test_every = 100, .patience = 3});
  EXPECT_EQ(TestsUntilStop(&controller, {0.5, 0.4, 0.7, 0.7, 0.6, 0.5, 0.9}), 6);
  EXPECT_EQ(controller.best(), 0.7);
  EXPECT_GT(controller.best_iteration(), 0);
  EXPECT_EQ(controller.best_snapshot().substr(0, 5), "iter_");
}

TEST(EarlyStoppingTest, MayPreferLess) {
  EarlyStopping controller({.greater_is_better = false, .test_every = 100, .patience = 1});
  EXPECT_EQ(TestsUntilStop(&controller, {0.5, 0.4, 0.45}), 3);
  EXPECT_EQ(controller.best(), 0.4);
}

// A controller that is started again goes on where the other was.
TEST(EarlyStoppingTest, GoesOnFromItsState) {
  EarlyStopping first({.test_every = 100, .patience = 3});
  EXPECT_EQ(TestsUntilStop(&first, {0.5, 0.4, 0.3, 0.2}), 4);
  EarlyStopping second({.test_every = 100, .patience = 5});
  second.Restore(first.State());
  EXPECT_EQ(second.best(), 0.5);
  EXPECT_EQ(second.best_snapshot(), first.best_snapshot());
  EXPECT_EQ(TestsUntilStop(&second, {0.45, 0.49, 0.6, 0.9}), 2);
  EXPECT_CONTAINS(ErrorOf([&] { second.Restore("{"); }), "state of early stopping");
}

TEST(EarlyStoppingTest, LetsAnotherWorkerTestWhenTheTesterLeaves) {
  EarlyStopping controller({.test_every = 100, .patience = 3});
  Worker a{.name = "a"}, b{.name = "b"};
  EXPECT_EQ(controller.Next(a).iterations, 100);
  EXPECT_EQ(controller.Next(b).kind, Instruction::kTrain);
  EXPECT_EQ(controller.Next(b).kind, Instruction::kTrain);
  EXPECT_EQ(controller.Next(a).kind, Instruction::kTest);
  controller.Left(a);
  EXPECT_EQ(controller.Next(b).iterations, 100);
  EXPECT_EQ(controller.Next(b).kind, Instruction::kTest);
}

TEST(EarlyStoppingTest, NamesOutputsThatExist) {
  EarlyStopping controller({.output = "recall"});
  Worker worker{.name = "a", .test_iteration = 0, .outputs = {{"accuracy", 1}, {"loss", 0}}};
  controller.Next(worker);
  controller.Next(worker);
  EXPECT_CONTAINS(ErrorOf([&] { controller.Next(worker); }),
                  "no output \"recall\", expected one of accuracy, loss");
  EXPECT_CONTAINS(ErrorOf([] { EarlyStopping({.patience = 0}); }), "expected at least 1");
}

TEST(RunControllerTest, RefusesBadOptions) {
  TempDir folder;
  Scripted controller;
  EXPECT_CONTAINS(ErrorOf([&] { RunController(&controller, {}); }),
                  "expected a topology whose nodes have `control`, or addresses");
  EXPECT_CONTAINS(ErrorOf([&] { RunController(&controller, {.topology = folder / "none"}); }),
                  "none");
  EarlyStopping stopping({});
  WriteFile(folder / "state", "nonsense");
  EXPECT_CONTAINS(ErrorOf([&] {
                    RunController(&stopping, {.addresses = {"1"}, .state_file = folder / "state"});
                  }),
                  folder / "state: state of early stopping");
}

}  // namespace
}  // namespace millrace::test
