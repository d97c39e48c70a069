#include "control/launch/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace millrace::inline control {
namespace {

struct Pipe {
  FileDescriptor read, write;
};

Pipe MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("pipe: ", ErrnoText(errno));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Runs between fork and exec, so it calls only functions that are safe there. `parent`: the process
// that forked.
[[noreturn]] void Become(char* const* arguments, int input, int output, int errors, int failure,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // A shell starts a job in the background with some of them ignored, and a shell that begins so
  // cannot trap them.
  for (const int each : {SIGINT, SIGQUIT, SIGTERM, SIGPIPE}) signal(each, SIG_DFL);
  const bool has_files = dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
                         dup2(errors, STDERR_FILENO) >= 0;
  if (has_files && getppid() == parent) execvp(arguments[0], arguments);
  const int error = errno;
  (void)!write(failure, &error, sizeof(error));
  _exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command) {
  Pipe input = MakePipe(), output = MakePipe(), errors = MakePipe(), failure = MakePipe();
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw Error(command[0], " cannot be started: ", ErrnoText(errno));
  if (pid_ == 0) {
    Become(arguments.data(), input.read.get(), output.write.get(), errors.write.get(),
           failure.write.get(), parent);
  }
  failure.write = FileDescriptor();
  int error = 0;
  ssize_t got = 0;
  while ((got = read(failure.read.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (got == sizeof(error)) {
    waitpid(pid_, nullptr, 0);
    throw Error(command[0], " cannot be started: ", ErrnoText(error));
  }
  input_ = std::move(input.write);
  output_ = std::move(output.read);
  errors_ = std::move(errors.read);
  for (const int fd : {output_.get(), errors_.get()}) fcntl(fd, F_SETFL, O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  if (Ended()) return;
  Signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::Signal(int signal) const {
  if (!status_) kill(-pid_, signal);
}

std::optional<int> ChildProcess::Ended() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return status_;
}

}  // namespace millrace::inline control
