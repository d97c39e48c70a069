// Two nodes in this process end their schedules together.
#include <glog/logging.h>

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "test/support/free_port.h"
#include "test/support/log_watch.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// Slows a run down until the log has what the test needs: an iteration that ends beyond `after`
// waits up to 100 ms for `text`. Nodes that wait do not stand still: they follow their peers
// between iterations.
struct Event {
  int64_t after;
  std::string text;
};
class SlowUntilLogged : public RunObserver {
 public:
  SlowUntilLogged(const LogWatch* log, std::vector<Event> events)
      : log_(*log), events_(std::move(events)) {}
  void Started(int64_t, double) override {}
  void Iterated(int64_t completed, double) override {
    while (!events_.empty() && completed > events_.front().after) {
      for (int i = 0; i < 100 && !log_.Saw(events_.front().text); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (!log_.Saw(events_.front().text)) return;
      events_.erase(events_.begin());
    }
  }
  void Ended() override {}

 private:
  const LogWatch& log_;
  std::vector<Event> events_;  // that are to come, in their order
};

// Nodes a and b; each saves under its own name.
class TwoNodes : public testing::Test {
 protected:
  // A node that a loaded machine holds up is not dead.
  TwoNodes() { WriteTopology(60'000); }
  void WriteTopology(int peer_timeout_ms) {
    WriteFile(work_ / "cluster.prototxt",
              StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                     " node { name: 'b' address: '127.0.0.2' }",
                     " segment { name: 's' transport: 'udp' port: ", FreePort(),
                     " peer_timeout_ms: ", peer_timeout_ms, " }"));
  }
  void Run(const caffe::SolverParameter& solver) { Run(solver, solver); }
  // Keeps an error of b in `errors_`.
  void Run(const caffe::SolverParameter& a, const caffe::SolverParameter& b) {
    const LogWatch log;
    const auto train = [&](int node) {
      SlowUntilLogged observer(&log, events_);
      TrainOptions options = WithSolvers(1);
      options.topology = work_ / "cluster.prototxt";
      options.node = kNames[node];
      options.observer = &observer;
      try {
        outcomes_[node] = RunNamed(work_, kNames[node], node == 0 ? a : b, options);
      } catch (const Error& error) {
        errors_[node] = error.what();
      }
    };
    testing::internal::CaptureStderr();
    const int least = std::exchange(FLAGS_minloglevel, google::GLOG_INFO);
    std::thread other([&] { train(1); });
    train(0);
    other.join();
    FLAGS_minloglevel = least;
    log_ = testing::internal::GetCapturedStderr();
  }
  // b trains the net of `bad_net`, which makes it fail while a still trains.
  void RunWhileBFails(const std::function<std::string(const SmallNet&)>& bad_net) {
    WriteTopology(2000);  // a waits so long for b
    WriteFile(work_ / "bad.prototxt", bad_net(work_.Net()));
    events_ = {{1, "node b has failed"}};
    const caffe::SolverParameter good = Workspace::Solver(kLong);
    caffe::SolverParameter bad = good;
    bad.set_net(work_ / "bad.prototxt");
    Run(good, bad);
  }
  int Logged(const std::string& text) const {
    int count = 0;
    for (size_t at = 0; (at = log_.find(text, at)) != std::string::npos; ++at) ++count;
    return count;
  }
  std::vector<std::string> FilesWith(const std::string& end) const {
    std::vector<std::string> files;
    for (const char* name : kNames) {
      for (const std::string& file : work_.FilesWith(name)) {
        if (file.ends_with(end)) files.push_back(file);
      }
    }
    return files;
  }

  static constexpr const char* kNames[] = {"a", "b"};
  static constexpr int kLong = 2000;

  Workspace work_;
  // For which both nodes wait: first, that they train together.
  std::vector<Event> events_ = {{1, "Joined the run"}};
  Outcome outcomes_[2];
  std::string errors_[2];
  std::string log_;  // of both nodes
};

TEST_F(TwoNodes, SaveOneModelAndAPartEachAndKnowTheSameResults) {
  constexpr int kIterations = 200;
  Run(Workspace::Tested(Workspace::Solver(kIterations), kIterations));
  for (const std::string& error : errors_) EXPECT_EQ(error, "");
  for (const Outcome& outcome : outcomes_) EXPECT_EQ(outcome.result.failure, "");
  const std::string end = StrCat("_iter_", kIterations);
  EXPECT_EQ(FilesWith(".caffemodel").size(), 1u);
  const std::vector<std::string> parts = {"a" + end + ".a.solverstate",
                                          "b" + end + ".b.solverstate"};
  for (const std::string& part : parts) EXPECT_EQ(FilesWith(part).size(), 1u) << part;
  EXPECT_EQ(Logged("Snapshotting to binary proto file"), 1);
  EXPECT_EQ(Logged("Snapshotting this node's part"), 2);
  for (const Outcome& outcome : outcomes_) {
    EXPECT_EQ(outcome.result.iteration, kIterations);
    ASSERT_EQ(outcome.result.tests.size(), 1u);
  }
  EXPECT_EQ(outcomes_[0].FinalOutput("accuracy"), outcomes_[1].FinalOutput("accuracy"));
  EXPECT_EQ(outcomes_[0].result.tests[0].loss, outcomes_[1].result.tests[0].loss);
}

// Periodic tests have not seen the last merges.
TEST_F(TwoNodes, TestWhatTheySaveWhereNoTestIsDue) {
  Run(Workspace::Tested(Workspace::Solver(200), 150));
  for (const Outcome& outcome : outcomes_) ASSERT_EQ(outcome.result.tests.size(), 1u);
  EXPECT_EQ(outcomes_[0].FinalOutput("accuracy"), outcomes_[1].FinalOutput("accuracy"));
  EXPECT_EQ(Logged("Iteration 200, Testing net (#0)"), 1);
}

// The learning rate jumps just before the end, so no periodic test sees its effect: the only one
// has its result long before.
TEST_F(TwoNodes, SayThatTheLastTestIsFarBelowTheOneBefore) {
  constexpr int kTested = 500, kJump = 990, kEnd = 1000;
  SmallNet net = work_.Net();
  net.hidden = 3000;  // slow beside the exchange of counts, so that the nodes count together
  work_.WriteNet(net);
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(kEnd), kTested);
  solver.set_test_initialization(false);
  solver.set_lr_policy("multistep");
  solver.add_stepvalue(kJump);
  solver.set_gamma(1e4f);
  events_.push_back({kTested, StrCat("Iteration ", kTested, ", Testing net (#0)")});
  Run(solver);
  for (const std::string& error : errors_) EXPECT_EQ(error, "");
  EXPECT_EQ(FilesWith(".caffemodel").size(), 1u) << log_;
  int named = 0;
  for (const Outcome& outcome : outcomes_) {
    const TrainResult& result = outcome.result;
    EXPECT_EQ(result.iteration, kEnd);
    if (result.failure.empty()) continue;  // the node may have missed the complete test before
    EXPECT_EQ(result.failure.find("test net #0: "), 0u) << result.failure;
    EXPECT_CONTAINS(result.failure, StrCat(" at the end, iteration ", kEnd));
    EXPECT_CONTAINS(result.failure, StrCat(" at iteration ", kTested, ": "));
    EXPECT_CONTAINS(result.failure, result.model.empty() ? "the saved model" : result.model);
    named += !result.model.empty();
  }
  EXPECT_EQ(named, 1) << "the leader knows all results";
}

// The data of b are bad. The cause of its failure does not concern the weights.
TEST_F(TwoNodes, GoOnWhereOneFailsAndSayWhy) {
  Images images;
  images.first_label = 3;  // labels 3 to 6; the net has 4 classes
  images.WriteDatabase(work_ / "odd_lmdb");
  RunWhileBFails([&](SmallNet net) {
    net.train_sources = {work_ / "odd_lmdb"};
    return net.Text();
  });
  EXPECT_CONTAINS(errors_[1], "label 4");
  EXPECT_EQ(errors_[0], "");
  EXPECT_EQ(Logged("node b has failed: layer 'loss'"), 1) << log_;
  EXPECT_EQ(outcomes_[0].result.iteration, kLong);
  EXPECT_EQ(outcomes_[0].result.failure, "");
  EXPECT_EQ(FilesWith(".caffemodel").size(), 1u);
}

TEST_F(TwoNodes, SaveAndSayThatOneEndedWithALossThatIsNotFinite) {
  RunWhileBFails([](const SmallNet& net) { return OverflowingText(net); });
  EXPECT_CONTAINS(errors_[1], "the loss is not finite");
  EXPECT_EQ(errors_[0], "");
  EXPECT_EQ(Logged("node b has failed: iteration "), 1) << log_;
  EXPECT_EQ(outcomes_[0].result.iteration, kLong);
  EXPECT_EQ(outcomes_[0].result.failure.find("node b ended with a loss that is not finite"), 0u);
  EXPECT_EQ(FilesWith(".caffemodel").size(), 1u);
}

}  // namespace
}  // namespace millrace::test
