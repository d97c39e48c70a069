// Two nodes in this process end their schedules together.
#include <glog/logging.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "test/support/free_port.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// Where two nodes wait for each other, beyond iteration `after`. A node that has completed an
// iteration beyond it has begun all periodic tests that were due up to it.
class Meeting {
 public:
  explicit Meeting(int64_t after) : after_(after) {}

  int64_t after() const { return after_; }
  void Arrive() {
    std::lock_guard lock(mutex_);
    ++arrived_;
    changed_.notify_all();
  }
  void AwaitBoth() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ == 2; });
  }

 private:
  const int64_t after_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
};

// Of one node. A node that ends earlier does not keep the other waiting.
class WaitAtMeeting : public RunObserver {
 public:
  explicit WaitAtMeeting(Meeting* meeting) : meeting_(*meeting) {}
  void Started(int64_t, double) override {}
  void Iterated(int64_t completed, double) override {
    if (completed <= meeting_.after()) return;
    Arrive();
    meeting_.AwaitBoth();
  }
  void Ended() override { Arrive(); }

 private:
  void Arrive() {
    if (!std::exchange(arrived_, true)) meeting_.Arrive();
  }
  Meeting& meeting_;
  bool arrived_ = false;
};

// Nodes a and b; each saves under its own name.
class TwoNodes : public testing::Test {
 protected:
  TwoNodes() {
    WriteFile(work_ / "cluster.prototxt",
              StrCat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                     " node { name: 'b' address: '127.0.0.2' }",
                     " segment { name: 's' transport: 'udp' port: ", FreePort(), " }"));
  }
  void Run(const caffe::SolverParameter& solver) { Run(solver, solver); }
  // Keeps an error of b in `errors_`.
  void Run(const caffe::SolverParameter& a, const caffe::SolverParameter& b) {
    const auto train = [&](int node) {
      TrainOptions options = WithSolvers(1);
      options.topology = work_ / "cluster.prototxt";
      options.node = kNames[node];
      options.observer = observers_[node];
      try {
        outcomes_[node] = RunNamed(work_, kNames[node], node == 0 ? a : b, options);
      } catch (const Error& error) {
        errors_[node] = error.what();
        if (observers_[node] != nullptr) observers_[node]->Ended();
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
  // b trains the net of `bad_net`, which makes it fail. The hidden layer is so large that a still
  // trains then.
  void RunWhileBFails(const std::function<std::string(const SmallNet&)>& bad_net) {
    SmallNet net = work_.Net();
    net.hidden = 3000;
    work_.WriteNet(net);
    WriteFile(work_ / "bad.prototxt", bad_net(net));
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
  RunObserver* observers_[2] = {};
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

// The learning rate jumps just before the end, so no periodic test sees its effect: both nodes
// begin the only one long before, and no node jumps until then.
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
  Meeting meeting(kTested);
  WaitAtMeeting a(&meeting), b(&meeting);
  observers_[0] = &a;
  observers_[1] = &b;
  Run(solver);
  for (const std::string& error : errors_) EXPECT_EQ(error, "");
  EXPECT_EQ(FilesWith(".caffemodel").size(), 1u);
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
