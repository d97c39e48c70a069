// A program that this one has started, with its output.
#ifndef MILLRACE_CONTROL_LAUNCH_CHILD_PROCESS_H_
#define MILLRACE_CONTROL_LAUNCH_CHILD_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "millrace/file_descriptor.h"

namespace millrace::inline control {

// In a process group of its own, so that Ctrl-C on the terminal reaches only this program. Ends
// with this program, also if that is killed.
class ChildProcess {
 public:
  // Throws Error if the program cannot be started.
  explicit ChildProcess(const std::vector<std::string>& command);
  // Kills the process group if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Reading ends of its standard output and error, which do not block.
  int output() const { return output_.get(); }
  int errors() const { return errors_.get(); }
  // Ends its standard input.
  void CloseInput() { input_ = FileDescriptor(); }
  // Sends a signal to the process group.
  void Signal(int signal) const;
  // Its exit status, 128 + n if signal n ended it; none while it runs.
  std::optional<int> Ended();

 private:
  // Ends with this object, if not before: programs on other machines, which get no signal, see
  // this.
  FileDescriptor input_, output_, errors_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_LAUNCH_CHILD_PROCESS_H_
