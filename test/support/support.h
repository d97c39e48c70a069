// What several test folders need.
#ifndef MILLRACE_TEST_SUPPORT_SUPPORT_H_
#define MILLRACE_TEST_SUPPORT_SUPPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::test {

// The seed of this run's random tests: printed at the start, repeated with
// --seed=N. Tests derive all randomness from it.
uint64_t Seed();

// How many times as long as usual to wait for what ought to happen: MILLRACE_TEST_PATIENCE,
// for machines that are so much slower.
int Patience();

// A fresh folder, removed with all its content at the end of scope.
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
// Leaves the temporary file of an AtomicFile for `path`, of a process that was killed.
void LeaveTemporary(const std::string& path);

struct CommandResult {
  int status = -1;     // exit status; 128 + n when ended by signal n
  std::string output;  // stdout
  std::string errors;  // stderr
};

// Runs a program and waits for it. `timeout_seconds` bounds a hang: the program
// is then killed and status is 128 + SIGKILL.
CommandResult Run(const std::vector<std::string>& arguments, double timeout_seconds = 120);

// A program in the background; killed at the end of scope.
class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments);
  ~Process();
  int pid() const { return pid_; }
  void Signal(int signal);
  // Waits for the end and returns the result; kills it after the timeout.
  CommandResult Wait(double timeout_seconds = 120);
  // What it has written to stderr so far.
  std::string ErrorsSoFar() const;

 private:
  TempDir folder_;
  const std::string output_path_, errors_path_;  // in the folder
  int pid_ = -1;
  int killed_pid_ = -1;  // if it was killed: what it keeps in shared memory goes with this
};

// build/millrace of the build under test.
std::string Binary();

// The lines of glog-prefixed or plain stderr text that are not log lines.
std::vector<std::string> PlainLines(const std::string& text);

// The message of the Error that `body` throws; fails the test if it does not.
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

// ASSERT-like check that `text` contains `part`.
#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "in: " << (text)

#endif  // MILLRACE_TEST_SUPPORT_SUPPORT_H_
