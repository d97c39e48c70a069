#include "tools/screen.h"

#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/tools/tools_support.h"

namespace millrace {
namespace {

TEST(FitScreen, CutsLinesAtTheRightEdgeByCharacters) {
  EXPECT_EQ(FitScreen("abcdef\nab\n\nabc", 3, 24), "abc\nab\n\nabc\n");
  EXPECT_EQ(FitScreen("\u00fcber alles\n", 4, 24), "\u00fcber\n");
  EXPECT_EQ(FitScreen("", 80, 24), "");
}

TEST(FitScreen, SaysHowManyLinesHaveNoRow) {
  EXPECT_EQ(FitScreen("a\nb\nc\n", 80, 4), "a\nb\nc\n");
  EXPECT_EQ(FitScreen("a\nb\nc\nd\n", 80, 4), "a\nb\nand 2 more lines\n");
}

// The program at a terminal of 40 columns and 5 rows.
class TopAtATerminal : public testing::Test {
 protected:
  TopAtATerminal() {
    const winsize size{5, 40, 0, 0};
    pid_ = forkpty(&controller_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      const std::string program = test::Binary();
      execl(program.c_str(), program.c_str(), "top", "--interval=0.1", nullptr);
      _exit(127);
    }
  }
  ~TopAtATerminal() override { close(controller_); }

  void WaitForATable() {
    for (char byte; read(controller_, &byte, 1) == 1;) {
      written_ += byte;
      if (written_.find("\033[2J") != std::string::npos && byte == '\n') return;
    }
    FAIL() << "it has ended: " << written_;
  }
  // The exit status, and whether the terminal shows keys again.
  void ExpectEnd() {
    int status = 0;
    ASSERT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    termios mode{};
    ASSERT_EQ(tcgetattr(controller_, &mode), 0);
    EXPECT_TRUE(mode.c_lflag & ECHO);
    EXPECT_TRUE(mode.c_lflag & ICANON);
  }

  int controller_ = -1;
  pid_t pid_ = -1;
  std::string written_;
};

TEST_F(TopAtATerminal, EndsWithTheKeyQ) {
  WaitForATable();
  ASSERT_EQ(write(controller_, "xq", 2), 2);
  ExpectEnd();
}

TEST_F(TopAtATerminal, EndsWithControlC) {
  WaitForATable();
  ASSERT_EQ(write(controller_, "\x03", 1), 1);
  ExpectEnd();
}

}  // namespace
}  // namespace millrace
