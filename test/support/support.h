// Helpers shared by several test directories.
#ifndef MILLRACE_TEST_SUPPORT_SUPPORT_H_
#define MILLRACE_TEST_SUPPORT_SUPPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::test {

// Seed of this run's random tests. The program prints it at the start. It is 1, unless --seed=N or
// MILLRACE_TEST_SEED=N give another; "random" draws one. Tests derive all randomness from it.
uint64_t Seed();

// The seed that `argument` (of --seed=, null without one) or MILLRACE_TEST_SEED name. Throws Error.
uint64_t ChooseSeed(const char* argument);

// Factor for the timeouts of expected events, for slow machines: MILLRACE_TEST_PATIENCE.
int Patience();

// A new directory, removed with its content at the end of the scope.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void WriteFile(const std::string& path, const std::string& content);
// Leaves a temporary file of an AtomicFile for `path`, as a killed process does.
void LeaveTemporary(const std::string& path);

struct CommandResult {
  int status = -1;     // exit status; 128 + n when ended by signal n
  std::string output;  // stdout
  std::string errors;  // stderr
};

// After this time a program is considered to hang. It far exceeds every expected duration, also on
// a machine with many times more work than processors.
inline constexpr double kHangSeconds = 900;

// Runs a program and waits for it. A program that exceeds `timeout_seconds` is killed, and status
// is 128 + SIGKILL.
CommandResult Run(const std::vector<std::string>& arguments, double timeout_seconds = kHangSeconds);

// A background process, killed at the end of the scope.
class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments);
  ~Process();
  int pid() const { return pid_; }
  void Signal(int signal);
  // Waits for the end and returns the result. Kills the process after the timeout.
  CommandResult Wait(double timeout_seconds = kHangSeconds);
  // Text written to stderr so far.
  std::string ErrorsSoFar() const;

 private:
  TempDir folder_;
  const std::string output_path_, errors_path_;  // in folder_
  int pid_ = -1;
  int killed_pid_ = -1;  // pid of a killed process; the destructor removes its counter file
};

// build/millrace of the build under test.
std::string Binary();

// The lines of stderr text that are not glog lines.
std::vector<std::string> PlainLines(const std::string& text);

// Message of the Error that `body` throws. Fails the test if it throws none.
template <typename Body>
std::string ErrorOf(Body body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

}  // namespace millrace::test

// Expects `text` to contain `part`.
#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "in: " << (text)

#endif  // MILLRACE_TEST_SUPPORT_SUPPORT_H_
