#include "control/run_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/process_identity.h"
#include "millrace/version.h"

namespace millrace::inline control {
namespace {

class Adder {
 public:
  explicit Adder(MetricsReading* reading) : reading_(*reading) {}

  // Begins a family.
  Adder& Family(const std::string& name, const std::string& help, const std::string& unit = "",
                MetricType type = MetricType::kGauge) {
    reading_.families.push_back(
        {.name = name, .help = help, .unit = unit, .type = type, .number = name});
    return *this;
  }
  // Adds a metric of the last family.
  void Add(double value, MetricLabels labels = {}) {
    reading_.metrics.push_back({.family = static_cast<uint32_t>(reading_.families.size() - 1),
                                .labels = std::move(labels),
                                .group = "run",
                                .detail = "",
                                .value = value});
  }

 private:
  MetricsReading& reading_;
};

// Entries of a folder of /proc, without "." and "..".
int EntriesOf(const char* path) {
  DIR* const folder = opendir(path);
  if (folder == nullptr) return 0;
  int count = -2;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// The names and meanings of Prometheus' client libraries.
void AddProcess(Adder* to) {
  to->Family("process_cpu_seconds_total", "User and system time of the process.", "seconds",
             MetricType::kFractionalCounter)
      .Add(static_cast<double>(PosixClockNs(CLOCK_PROCESS_CPUTIME_ID)) * 1e-9);
  to->Family("process_open_fds", "Open file descriptors.")
      .Add(EntriesOf("/proc/self/fd") - 1);  // without that of the folder itself
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    to->Family("process_max_fds", "Limit of open file descriptors.")
        .Add(static_cast<double>(limit.rlim_cur));
  }
  to->Family("process_threads", "Threads of the process.").Add(EntriesOf("/proc/self/task"));
  unsigned long long virtual_pages = 0, resident_pages = 0;
  uint64_t start_ticks = 0;
  try {
    start_ticks = ThisProcess().start_time;
    const std::string statm = ReadFile("/proc/self/statm");
    if (std::sscanf(statm.c_str(), "%llu %llu", &virtual_pages, &resident_pages) != 2) return;
  } catch (const Error&) {  // /proc is not mounted
    return;
  }
  timespec boot{}, now{};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  clock_gettime(CLOCK_REALTIME, &now);
  const auto seconds = [](const timespec& time) { return time.tv_sec + time.tv_nsec * 1e-9; };
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  to->Family("process_start_time_seconds", "Start of the process since 1970.", "seconds")
      .Add(seconds(now) - seconds(boot) + static_cast<double>(start_ticks) / ticks);
  const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  to->Family("process_resident_memory_bytes", "Resident memory.", "bytes")
      .Add(static_cast<double>(resident_pages) * page_bytes);
  to->Family("process_virtual_memory_bytes", "Virtual memory.", "bytes")
      .Add(static_cast<double>(virtual_pages) * page_bytes);
}

void AddBuild(Adder* to) {
  to->Family("millrace_build_info", "1, with the version of Millrace.")
      .Add(1, {{"version", Version()}});
}

void AddRun(const RunIdentity& given, const RunStatus& status, Adder* to) {
  const RunIdentity identity = IdentityOf(given, status);
  if (!identity.node.empty()) {
    to->Family("millrace_node_info", "1, with the node's name and its cluster.")
        .Add(1, {{"cluster", identity.cluster}, {"node", identity.node}});
  }
  using State = RunStatus::State;
  to->Family("millrace_run_state", "1 for the state of the run, 0 for the others.");
  for (const State state :
       {State::kStarting, State::kTraining, State::kPaused, State::kStopping, State::kEnded}) {
    to->Add(state == status.state, {{"state", NameOf(state)}});
  }
  to->Family("millrace_run_iterations_max", "Iterations of the whole schedule; 0: not known yet.")
      .Add(static_cast<double>(status.max_iteration));
  to->Family("millrace_run_learning_rate", "Learning rate of the last iteration.")
      .Add(status.learning_rate);
  to->Family("millrace_run_elapsed_seconds", "Time since training began.", "seconds")
      .Add(status.seconds);
  if (!status.tests.empty()) {
    to->Family("millrace_run_test_output",
               "Output of the last test of a test net; index: its number.");
    for (const RunTest& test : status.tests) {
      for (size_t i = 0; i < test.outputs.size(); ++i) {
        const TestOutput& output = test.outputs[i];
        to->Add(output.mean,
                {{"net", StrCat(test.net)}, {"output", output.name}, {"index", StrCat(i)}});
      }
    }
    to->Family("millrace_run_test_iteration", "Iteration of the last test of a test net.");
    for (const RunTest& test : status.tests) {
      to->Add(static_cast<double>(test.iteration), {{"net", StrCat(test.net)}});
    }
  }
  if (status.snapshot_iteration >= 0) {
    to->Family("millrace_run_snapshot_iteration", "Iteration of the last snapshot.")
        .Add(static_cast<double>(status.snapshot_iteration));
    to->Family("millrace_run_snapshot_timestamp_seconds", "When it was written, since 1970.",
               "seconds")
        .Add(status.snapshot_unix_seconds);
  }
}

}  // namespace

MetricsReading ReadProcessMetrics(const MetricsRegistry* registry) {
  MetricsReading reading = registry != nullptr ? registry->Read() : MetricsReading();
  Adder to(&reading);
  AddBuild(&to);
  AddProcess(&to);
  return reading;
}

MetricsReading ReadRunMetrics(const MetricsRegistry* registry, const RunIdentity& identity,
                              const RunStatus& status) {
  MetricsReading reading = registry != nullptr ? registry->Read() : MetricsReading();
  Adder to(&reading);
  AddBuild(&to);
  AddRun(identity, status, &to);
  AddProcess(&to);
  return reading;
}

}  // namespace millrace::inline control
