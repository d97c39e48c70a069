// millrace controller with a run of its own.
#include "test/support/free_port.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class ControllerCommand : public testing::Test {
 protected:
  ControllerCommand()
      : training_(Command(
            {"train", StrCat("--control=", port_),
             "--solver=" + work_.Write("run", Workspace::Tested(Workspace::Solver(100'000'000),
                                                                100'000'000))})) {}
  CommandResult Controller(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"controller", StrCat("--addresses=127.0.0.1:", port_)});
    return Millrace(arguments);
  }

  Workspace work_;
  const int port_ = FreePort();
  Process training_;
};

TEST_F(ControllerCommand, StopsEarlyAndKeepsTheBest) {
  const CommandResult result = Controller({"--test_every=100", "--patience=2", "--state=" + (work_ / "state")});
  EXPECT_EQ(result.status, 0) << result.errors;
  const auto best = Matches(result.output, "best accuracy: ([0-9.]+) at iteration [0-9]+\n");
  EXPECT_EQ(best.size(), 1u) << result.output;
  const auto snapshot = Matches(result.output, "its snapshot: (.*)\n");
  ASSERT_EQ(snapshot.size(), 1u) << result.output;
  EXPECT_TRUE(FileExists(snapshot[0]));
  EXPECT_CONTAINS(ReadFile(work_ / "state"), "\"best_snapshot\":\"" + snapshot[0]);
  EXPECT_EQ(training_.Wait().status, 0);
}

TEST_F(ControllerCommand, NamesAWrongOutput) {
  const CommandResult result = Controller({"--test_every=10", "--test_output=recall"});
  EXPECT_EQ(result.status, 1);
  EXPECT_CONTAINS(result.errors, "no output \"recall\", expected one of accuracy, loss");
  // The run goes on without its controller.
  EXPECT_CONTAINS(Millrace({"ctl", "status", StrCat("--control=", port_)}).output, "training");
}

}  // namespace
}  // namespace millrace::test
