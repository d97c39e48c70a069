// millrace top: what the training processes of this machine are doing, live.
#include <gflags/gflags.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "monitor/board.h"
#include "monitor/board_table.h"
#include "tools/command.h"

DEFINE_bool(once, false, "print one table and end");
DEFINE_double(interval, 1, "seconds between two looks");

namespace millrace {
namespace {

int RunTop(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  if (!(FLAGS_interval >= 0.1 && FLAGS_interval <= 3600)) {
    throw Error("--interval=", FLAGS_interval, ": expected 0.1 to 3600 seconds");
  }
  const bool screen = isatty(STDOUT_FILENO) && !FLAGS_once;
  using Clock = std::chrono::steady_clock;
  std::vector<BoardReading> before = ReadBoards();
  Clock::time_point then = Clock::now();
  for (;;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(FLAGS_interval));
    std::vector<BoardReading> now = ReadBoards();
    const Clock::time_point at = Clock::now();
    const double seconds = std::chrono::duration<double>(at - then).count();
    if (screen) std::printf("\033[H\033[2J");
    std::fputs(BoardTable(before, now, seconds).c_str(), stdout);
    std::fflush(stdout);
    if (FLAGS_once || std::ferror(stdout)) return 0;
    before = std::move(now);
    then = at;
  }
}

const RegisterCommand registered({"top",
                                  "",
                                  "shows what the trainings on this machine are doing",
                                  {"once", "interval"},
                                  RunTop});

}  // namespace
}  // namespace millrace
