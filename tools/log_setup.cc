#define GLOG_CUSTOM_PREFIX_SUPPORT  // of the installed glog, before its headers
#include "tools/log_setup.h"

#include <gflags/gflags.h>
#include <glog/logging.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iomanip>
#include <optional>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "collective/processes.h"

namespace millrace {
namespace {

// Whether the user has chosen the value of a flag of glog's, by the flag or by the environment.
bool IsChosen(const std::string& flag) {
  return !gflags::GetCommandLineFlagInfoOrDie(flag.c_str()).is_default ||
         std::getenv(("GLOG_" + flag).c_str()) != nullptr;
}

void CheckFolder(const std::string& folder) {
  struct stat status {};
  int error = stat(folder.c_str(), &status) != 0         ? errno
              : !S_ISDIR(status.st_mode)                 ? ENOTDIR
              : access(folder.c_str(), W_OK | X_OK) != 0 ? errno
                                                         : 0;
  if (error != 0) {
    throw Error("--log_dir=", folder, ": ", std::generic_category().message(error),
                "; expected a folder to write to");
  }
}

std::optional<int> rank;  // that a launcher has given to this process; set before the first line

// glog's own prefix, with the year only if that is wanted, and the rank.
void WritePrefix(std::ostream& out, char severity, const google::LogMessageTime& time,
                 int64_t thread, const char* file, int line) {
  const auto two = [&out](int number) -> std::ostream& { return out << std::setw(2) << number; };
  out << severity << std::setfill('0');
  if (FLAGS_log_year_in_prefix) out << std::setw(4) << 1900 + time.year();
  two(1 + time.month());
  two(time.day()) << ' ';
  two(time.hour()) << ':';
  two(time.min()) << ':';
  two(time.sec()) << '.' << std::setw(6) << time.usec() << ' ' << std::setfill(' ') << std::setw(5)
                  << thread << ' ' << file << ':' << line << ']';
  if (rank) out << " rank " << *rank << ':';
}

void WriteRankPrefix(std::ostream& out, const google::LogMessageInfo& info, void*) {
  WritePrefix(out, info.severity[0], info.time, info.thread_id, info.filename, info.line_number);
}

}  // namespace

const std::vector<std::string>& LogFlags() {
  static const std::vector<std::string> flags = {"log_dir",
                                                 "logtostderr",
                                                 "alsologtostderr",
                                                 "stderrthreshold",
                                                 "minloglevel",
                                                 "v",
                                                 "vmodule",
                                                 "logbufsecs",
                                                 "logbuflevel",
                                                 "max_log_size",
                                                 "log_link",
                                                 "log_prefix",
                                                 "logfile_mode",
                                                 "log_utc_time",
                                                 "log_year_in_prefix",
                                                 "colorlogtostderr",
                                                 "logtostdout",
                                                 "colorlogtostdout",
                                                 "stop_logging_if_full_disk",
                                                 "timestamp_in_logfile_name"};
  return flags;
}

void SetLogDefaults() {
  if (std::getenv("GLOG_log_year_in_prefix") != nullptr) return;
  gflags::SetCommandLineOptionWithMode("log_year_in_prefix", "false", gflags::SET_FLAGS_DEFAULT);
}

void StartLog() {
  const bool to_folder = !FLAGS_log_dir.empty();
  const bool stderr_chosen = IsChosen("logtostderr");
  const bool to_files = to_folder || FLAGS_alsologtostderr || (stderr_chosen && !FLAGS_logtostderr);
  if (!stderr_chosen) FLAGS_logtostderr = !to_files && !FLAGS_logtostdout;
  if (to_folder && !stderr_chosen && !IsChosen("alsologtostderr")) FLAGS_alsologtostderr = true;
  if (to_folder && !FLAGS_logtostderr) CheckFolder(FLAGS_log_dir);
  const auto launch = FindLaunch([](const char* variable) { return std::getenv(variable); });
  if (!launch) return google::InitGoogleLogging("millrace");
  rank = launch->rank;
  google::InitGoogleLogging("millrace", WriteRankPrefix);
}

std::string LogLine(google::LogSeverity severity, const char* file, int line,
                    const google::LogMessageTime& time, std::string_view message) {
  std::ostringstream text;
  if (FLAGS_log_prefix) {
    const char letter = google::GetLogSeverityName(severity)[0];
    WritePrefix(text, letter, time, syscall(SYS_gettid), file, line);
    text << ' ';
  }
  text << message;
  return text.str();
}

}  // namespace millrace
