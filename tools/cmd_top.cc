// millrace top: shows the training processes of this machine, live.
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "base/error.h"
#include "metrics/counter_table.h"
#include "millrace/metrics.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/screen.h"

DEFINE_bool(once, false, "print one table and end");
DEFINE_bool(peers, false, "show each peer of a segment, too");
DEFINE_double(interval, 1, "seconds between two looks");

namespace millrace {
namespace {

// Prints to stderr the lines that are new since the last reading.
void ReportSkipped(const std::vector<std::string>& skipped,
                   const std::vector<std::string>& before) {
  for (const std::string& line : skipped) {
    const bool is_new = std::find(before.begin(), before.end(), line) == before.end();
    if (is_new) std::fprintf(stderr, "skipped: %s\n", line.c_str());
  }
}

int RunTop(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  if (!(FLAGS_interval >= 0.1 && FLAGS_interval <= 3600)) {
    throw Error("--interval=", FLAGS_interval, ": expected 0.1 to 3600 seconds");
  }
  std::optional<Screen> screen;
  if (isatty(STDOUT_FILENO) && !FLAGS_once && !FLAGS_json) screen.emplace();
  using Clock = std::chrono::steady_clock;
  std::vector<CounterFileReading> before = ReadCounterFiles();
  std::vector<std::string> skipped_before;
  Clock::time_point then = Clock::now();
  for (;;) {
    if (!screen) {
      std::this_thread::sleep_for(std::chrono::duration<double>(FLAGS_interval));
    } else if (screen->Ends(FLAGS_interval)) {
      return 0;
    }
    std::vector<std::string> skipped;
    std::vector<CounterFileReading> now = ReadCounterFiles(MetricsRegistry::kFolder, &skipped);
    const Clock::time_point at = Clock::now();
    const double seconds = std::chrono::duration<double>(at - then).count();
    std::string text =
        FLAGS_json ? CounterFileJson(now) : CounterTable(before, now, seconds, FLAGS_peers);
    if (screen) {
      for (const std::string& line : skipped) text += StrCat("skipped: ", line, "\n");
      screen->Show(text);
    } else {
      std::fputs(text.c_str(), stdout);
      ReportSkipped(skipped, skipped_before);
      std::fflush(stdout);
    }
    if (FLAGS_once || std::ferror(stdout)) return 0;
    before = std::move(now);
    skipped_before = std::move(skipped);
    then = at;
  }
}

const RegisterCommand registered_top({"top",
                                      "",
                                      "shows what the trainings on this machine are doing",
                                      {"once", "interval", "peers", "json"},
                                      RunTop});

}  // namespace
}  // namespace millrace
