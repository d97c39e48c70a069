// How two nodes end their schedule together, in this process.
#include <glog/logging.h>

#include <thread>
#include <utility>

#include "test/support/free_port.h"
#include "test/train/train_support.h"

namespace millrace::test {
namespace {

// Nodes a and b, which save under their own names.
class TwoNodes : public testing::Test {
 protected:
  TwoNodes() {
    WriteFile(work_ / "cluster.prototxt",
              Cat("name: 'c' node { name: 'a' address: '127.0.0.1' }",
                  " node { name: 'b' address: '127.0.0.2' }",
                  " segment { name: 's' transport: 'udp' port: ", FreePort(), " }"));
  }
  void Run(const caffe::SolverParameter& solver) {
    const auto train = [&](int node) {
      TrainOptions options = WithSolvers(1);
      options.topology = work_ / "cluster.prototxt";
      options.node = kNames[node];
      try {
        outcomes_[node] = RunNamed(work_, kNames[node], solver, options);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
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

  Workspace work_;
  Outcome outcomes_[2];
  std::string log_;  // of both
};

TEST_F(TwoNodes, SaveOneModelAndAPartEachAndKnowTheSameResults) {
  constexpr int kIterations = 200;
  Run(Workspace::Tested(Workspace::Solver(kIterations), kIterations));
  const std::string end = Cat("_iter_", kIterations);
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

}  // namespace
}  // namespace millrace::test
