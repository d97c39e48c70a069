#include "tools/progress_line.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <regex>

#include "base/error.h"
#include "test/support/fake_clock.h"
#include "test/support/support.h"

namespace millrace {
namespace {

// ---- Rates ----

TEST(RecentRate, IsUnknownUntilTimeHasPassed) {
  test::FakeClock clock;
  RecentRate rate(&clock, 10);
  EXPECT_EQ(rate.PerSecond(), std::nullopt);
  rate.Add(5);
  EXPECT_EQ(rate.PerSecond(), std::nullopt);
  rate.Add(6);
  EXPECT_EQ(rate.PerSecond(), std::nullopt);
  clock.AdvanceSeconds(2);
  rate.Add(9);
  EXPECT_DOUBLE_EQ(*rate.PerSecond(), 2);
}

TEST(RecentRate, ForgetsWhatIsOlderThanItsWindow) {
  test::FakeClock clock;
  RecentRate rate(&clock, 10);
  int64_t count = 0;
  for (int i = 0; i < 100; ++i, clock.AdvanceSeconds(1)) rate.Add(count += 1);
  EXPECT_NEAR(*rate.PerSecond(), 1, 1e-9);
  for (int i = 0; i < 5; ++i, clock.AdvanceSeconds(1)) rate.Add(count += 21);
  EXPECT_NEAR(*rate.PerSecond(), 11, 1e-9);
  for (int i = 0; i < 6; ++i, clock.AdvanceSeconds(1)) rate.Add(count += 21);
  EXPECT_NEAR(*rate.PerSecond(), 21, 1e-9);
}

TEST(RecentRate, SeesAStandstill) {
  test::FakeClock clock;
  RecentRate rate(&clock, 10);
  for (int i = 0; i < 30; ++i, clock.AdvanceSeconds(1)) rate.Add(std::min(i, 10));
  EXPECT_EQ(rate.PerSecond(), 0);
}

TEST(RecentRate, IsRightHoweverOftenItIsAsked) {
  test::FakeClock clock;
  RecentRate rate(&clock, 1);
  for (int64_t i = 0; i <= 100000; ++i) {
    rate.Add(i);
    clock.AdvanceNs(10000);
  }
  EXPECT_NEAR(*rate.PerSecond(), 100000, 2000);
}

TEST(RecentRate, StartsAnewWhenTheCountFalls) {
  test::FakeClock clock;
  RecentRate rate(&clock, 10);
  rate.Add(1000);
  clock.AdvanceSeconds(1);
  rate.Add(10);
  EXPECT_EQ(rate.PerSecond(), std::nullopt);
  clock.AdvanceSeconds(1);
  rate.Add(13);
  EXPECT_DOUBLE_EQ(*rate.PerSecond(), 3);
}

// ---- Text ----

Progress Typical() {
  Progress progress;
  progress.iteration = 1240;
  progress.max_iteration = 10000;
  progress.iterations_per_second = 100;
  progress.images_per_iteration = 64;
  progress.loss = 0.12344;
  return progress;
}

TEST(ProgressText, SaysWhereTheRunStands) {
  EXPECT_EQ(ProgressText(Typical(), 80),
            "1,240/10,000  12.4 %  loss 0.1234  ETA 1:28  6,400 img/s");
}

TEST(ProgressText, SaysWhatItKnows) {
  EXPECT_EQ(ProgressText(Progress{}, 80), "0");
  Progress progress = Typical();
  progress.iterations_per_second.reset();
  EXPECT_EQ(ProgressText(progress, 80), "1,240/10,000  12.4 %  loss 0.1234  ETA --");
  progress.iterations_per_second = 0;
  EXPECT_CONTAINS(ProgressText(progress, 80), "ETA --");
  progress.iterations_per_second = 2.25;
  progress.images_per_iteration = 0;
  progress.max_iteration = 0;
  progress.loss.reset();
  EXPECT_EQ(ProgressText(progress, 80), "1,240  2.2 iter/s");
}

TEST(ProgressText, DoesNotSayThatItIsDoneBeforeItIs) {
  Progress progress = Typical();
  progress.iteration = 9999;
  EXPECT_CONTAINS(ProgressText(progress, 80), "99.9 %");
  progress.iteration = 10000;
  EXPECT_CONTAINS(ProgressText(progress, 80), "100.0 %  loss 0.1234  ETA 0 s");
}

TEST(ProgressText, NeverExceedsTheWidth) {
  const std::string whole = ProgressText(Typical(), 1000);
  for (int width = 0; width < 100; ++width) {
    const std::string text = ProgressText(Typical(), width);
    EXPECT_LE(static_cast<int>(text.size()), width);
    EXPECT_EQ(whole.rfind(text, 0), 0u) << text;
  }
  EXPECT_EQ(ProgressText(Typical(), 30), "1,240/10,000  12.4 %");
}

TEST(ProgressText, ShowsALossThatIsNotFinite) {
  Progress progress = Typical();
  progress.loss = std::nan("");
  EXPECT_CONTAINS(ProgressText(progress, 80), "loss nan");
  progress.loss = std::numeric_limits<double>::infinity();
  EXPECT_CONTAINS(ProgressText(progress, 80), "loss inf");
}

TEST(RemainingText, UsesTheUnitsThatMatter) {
  EXPECT_EQ(RemainingText(0.4), "0 s");
  EXPECT_EQ(RemainingText(59.4), "59 s");
  EXPECT_EQ(RemainingText(59.6), "1:00");
  EXPECT_EQ(RemainingText(83), "1:23");
  EXPECT_EQ(RemainingText(2 * 3600 + 3 * 60 + 45), "2:03:45");
  EXPECT_EQ(RemainingText(3 * 86400 + 4 * 3600), "3 d 04 h");
  EXPECT_EQ(RemainingText(1e30), "--");
  EXPECT_EQ(RemainingText(std::nan("")), "--");
}

// ---- At a terminal ----

class Terminal {
 public:
  explicit Terminal(int columns) {
    controller_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_EQ(grantpt(controller_), 0);
    EXPECT_EQ(unlockpt(controller_), 0);
    char name[100];
    EXPECT_EQ(ptsname_r(controller_, name, sizeof(name)), 0);
    program_ = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios mode;
    tcgetattr(program_, &mode);
    cfmakeraw(&mode);
    tcsetattr(program_, TCSANOW, &mode);
    struct winsize size {};
    size.ws_col = static_cast<unsigned short>(columns);
    ioctl(program_, TIOCSWINSZ, &size);
  }
  ~Terminal() {
    close(program_);
    close(controller_);
  }
  int fd() const { return program_; }

  // Everything written since the last call. Reads up to a marker byte, because a terminal delivers
  // its output asynchronously.
  std::string Written() {
    constexpr char kEnd = 1;
    EXPECT_EQ(write(program_, &kEnd, 1), 1);
    std::string text;
    char byte = 0;
    while (read(controller_, &byte, 1) == 1 && byte != kEnd) text += byte;
    return text;
  }

  // The lines of a screen after `text` was written to it.
  static std::vector<std::string> Screen(const std::string& text) {
    std::vector<std::string> lines = {""};
    size_t column = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      std::string& line = lines.back();
      if (text.compare(i, 3, "\x1b[K") == 0) {
        line.resize(column);
        i += 2;
      } else if (text[i] == '\r') {
        column = 0;
      } else if (text[i] == '\n') {
        lines.emplace_back();
        column = 0;
      } else {
        if (line.size() <= column) line.resize(column + 1, ' ');
        line[column++] = text[i];
      }
    }
    return lines;
  }

 private:
  int controller_ = -1, program_ = -1;
};

class ProgressAtATerminal : public testing::Test {
 protected:
  void SetUp() override { setenv("TERM", "xterm", 1); }

  ProgressLine::Options Options() {
    ProgressLine::Options options;
    options.max_iteration = 1000;
    options.images_per_iteration = 10;
    options.fd = terminal_.fd();
    return options;
  }

  Terminal terminal_{60};
  test::FakeClock clock_;
};

TEST_F(ProgressAtATerminal, IsDrawnOverItself) {
  ProgressLine line(&clock_, Options());
  ASSERT_TRUE(line.draws());
  line.Update(0, std::nullopt);
  clock_.AdvanceSeconds(1);
  line.Update(100, 0.5);
  const auto screen = Terminal::Screen(terminal_.Written());
  ASSERT_EQ(screen.size(), 1u);
  EXPECT_EQ(screen[0], "100/1,000  10.0 %  loss 0.5  ETA 9 s  1,000 img/s");
}

TEST_F(ProgressAtATerminal, IsDrawnNowAndThenOnlyButAlwaysAtTheEnd) {
  ProgressLine line(&clock_, Options());
  line.Update(1, 1);
  terminal_.Written();
  line.Update(2, 1);
  clock_.AdvanceSeconds(0.05);
  line.Update(3, 1);
  EXPECT_EQ(terminal_.Written(), "");
  clock_.AdvanceSeconds(0.06);
  line.Update(4, 1);
  EXPECT_CONTAINS(terminal_.Written(), "4/1,000");
  line.Update(1000, 1);
  EXPECT_CONTAINS(terminal_.Written(), "1,000/1,000  100.0 %");
}

TEST_F(ProgressAtATerminal, StaysBelowTheLog) {
  const bool logs_to_stderr = FLAGS_logtostderr;
  {
    ProgressLine line(&clock_, Options());
    line.Update(10, 0.5);
    LOG(WARNING) << "first";
    LOG(WARNING) << "second";
    const auto screen = Terminal::Screen(terminal_.Written());
    ASSERT_EQ(screen.size(), 3u);
    EXPECT_EQ(screen[0].substr(screen[0].size() - 7), "] first");
    EXPECT_EQ(screen[0][0], 'W');
    EXPECT_EQ(screen[1].substr(screen[1].size() - 8), "] second");
    EXPECT_EQ(screen[2], "10/1,000  1.0 %  loss 0.5  ETA --");
  }
  EXPECT_EQ(FLAGS_logtostderr, logs_to_stderr);
}

TEST_F(ProgressAtATerminal, HasTheLogLinesOfAFile) {
  const bool with_year = FLAGS_log_year_in_prefix;
  for (const bool year : {false, true}) {
    FLAGS_log_year_in_prefix = year;
    ProgressLine line(&clock_, Options());
    line.Update(10, 0.5);
    terminal_.Written();
    LOG(WARNING) << "message";
    const std::string written = Terminal::Screen(terminal_.Written())[0];
    const std::regex prefix(StrCat("W", year ? "20\\d{6}" : "\\d{4}",
                                   " \\d\\d:\\d\\d:\\d\\d\\.\\d{6} +\\d+ \\S+:\\d+\\] message"));
    EXPECT_TRUE(std::regex_match(written, prefix)) << written;
  }
  FLAGS_log_year_in_prefix = with_year;
}

TEST_F(ProgressAtATerminal, LeavesNothingBehind) {
  {
    ProgressLine line(&clock_, Options());
    line.Update(10, 0.5);
    LOG(WARNING) << "a message";
  }
  const auto screen = Terminal::Screen(terminal_.Written());
  ASSERT_EQ(screen.size(), 2u);
  EXPECT_CONTAINS(screen[0], "a message");
  EXPECT_EQ(screen[1], "");
}

TEST_F(ProgressAtATerminal, FitsANarrowOne) {
  Terminal narrow(25);
  ProgressLine::Options options = Options();
  options.fd = narrow.fd();
  ProgressLine line(&clock_, options);
  line.Update(10, 0.5);
  EXPECT_EQ(Terminal::Screen(narrow.Written())[0], "10/1,000  1.0 %");
}

TEST_F(ProgressAtATerminal, IsNotDrawnOnADumbOne) {
  setenv("TERM", "dumb", 1);
  ProgressLine line(&clock_, Options());
  EXPECT_FALSE(line.draws());
  line.Update(10, 0.5);
  EXPECT_EQ(terminal_.Written(), "");
}

TEST(ProgressLine, DrawsNothingIntoAFileAndLeavesLoggingAlone) {
  test::TempDir folder;
  const int fd = open((folder / "log").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  test::FakeClock clock;
  ProgressLine::Options options;
  options.fd = fd;
  {
    ProgressLine line(&clock, options);
    EXPECT_FALSE(line.draws());
    line.Update(10, 0.5);
    EXPECT_TRUE(FLAGS_logtostderr);
  }
  EXPECT_EQ(lseek(fd, 0, SEEK_END), 0);
  close(fd);
}

}  // namespace
}  // namespace millrace
