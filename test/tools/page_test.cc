// The page of the control service in a real browser.
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

TEST(PageInBrowser, ShowsAndControlsARun) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(100'000'000), 1'000'000);
  Process training(Command({"train", "--solver=" + work.Write("run", solver), "--control=0"}));
  ASSERT_TRUE(WaitForLog(training, "Control service: http://")) << training.ErrorsSoFar();
  const std::string url =
      Matches(training.ErrorsSoFar(), "Control service: (http://[^\\s]*)").at(0);
  const std::string token =
      Matches(Millrace({"ctl", "token", "--control=" + url.substr(7)}).output, "(.*)\n").at(0);
  const char* const folder = std::getenv("MILLRACE_SCREENSHOTS");
  const CommandResult result = test::Run({"/usr/bin/python3", "test/tools/page_in_browser.py", url,
                                          token, folder != nullptr ? folder : work / ""});
  if (result.status == 77) GTEST_SKIP() << result.output;
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
  EXPECT_EQ(training.Wait().status, 0);
}

}  // namespace
}  // namespace millrace::test
