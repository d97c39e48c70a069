// Runs the built program as a user does.
#ifndef MILLRACE_TEST_TOOLS_TOOLS_SUPPORT_H_
#define MILLRACE_TEST_TOOLS_TOOLS_SUPPORT_H_

#include <unistd.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "test/support/eventually.h"
#include "test/support/problem.h"
#include "test/support/support.h"

namespace millrace::test {

inline std::vector<std::string> Command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), Binary());
  return arguments;
}

inline CommandResult Millrace(const std::vector<std::string>& arguments) {
  return Run(Command(arguments));
}

// Expects a user error: exit status 1, nothing on stdout, and one line besides the log, which
// contains all of `parts`.
inline void ExpectOneLine(const CommandResult& result, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_EQ(result.output, "");
  const std::vector<std::string> lines = PlainLines(result.errors);
  ASSERT_EQ(lines.size(), 1u) << result.errors;
  for (const std::string& part : parts) EXPECT_CONTAINS(lines[0], part);
}

inline bool WaitForLog(const Process& process, const std::string& part) {
  return Eventually([&] { return process.ErrorsSoFar().find(part) != std::string::npos; });
}

// Group `group` of every match of the regular expression `pattern` in `text`.
std::vector<std::string> Matches(const std::string& text, const std::string& pattern,
                                 int group = 1);
// Whether `pattern` matches the whole of `text`.
bool MatchesWhole(const std::string& text, const std::string& pattern);

// A free name under /dev/shm; its file is removed at the end of the scope.
class ShmName {
 public:
  ShmName() : name_(StrCat("millrace_test_", getpid(), "_", counter()++)) {
    unlink(path().c_str());
  }
  ~ShmName() { unlink(path().c_str()); }
  const std::string& name() const { return name_; }
  std::string path() const { return "/dev/shm/" + name_; }
  std::string flag() const { return "--shm=" + name_; }

 private:
  static int& counter() {
    static int counter = 0;
    return counter;
  }
  std::string name_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TOOLS_TOOLS_SUPPORT_H_
