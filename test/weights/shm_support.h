// Helpers for the tests of shared weights: unique names under /dev/shm, and child processes that
// proceed step by step.
#ifndef MILLRACE_TEST_WEIGHTS_SHM_SUPPORT_H_
#define MILLRACE_TEST_WEIGHTS_SHM_SUPPORT_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/files/file.h"
#include "base/process_identity.h"
#include "test/support/support.h"
#include "weights/shm_file.h"
#include "weights/weight_buffer.h"

namespace millrace::test {

// A name that no other test uses. The file is removed at the end of the scope.
class ShmName {
 public:
  ShmName() {
    static int count = 0;
    name_ = StrCat("millrace-test-", getpid(), "-", count++);
  }
  ~ShmName() { unlink(path().c_str()); }

  operator const std::string&() const { return name_; }
  std::string path() const { return "/dev/shm/" + name_; }
  bool exists() const { return FileExists(path()); }

  // Number of running processes that are attached to the file.
  int processes() const {
    const std::string bytes = ReadFile(path());
    ShmProcess table[kMaxProcesses];
    std::memcpy(table, bytes.data() + offsetof(ShmHeader, processes), sizeof(table));
    return static_cast<int>(std::count_if(std::begin(table), std::end(table), [](const auto& each) {
      return each.role != kShmFree && IsAlive({each.pid, each.start_time});
    }));
  }

  // Overwrites bytes of the file at `offset`.
  template <typename T>
  void Poke(size_t offset, const T& value) const {
    const int fd = open(path().c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(pwrite(fd, &value, sizeof(value), static_cast<off_t>(offset)),
              static_cast<ssize_t>(sizeof(value)));
    close(fd);
  }

 private:
  std::string name_;
};

// A forked process that runs `body` and exits with its result (70 after an exception). It is killed
// at the end of the scope, and when its parent dies.
class Child {
 public:
  explicit Child(const std::function<int(Child&)>& body) {
    EXPECT_EQ(pipe2(up_, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(down_, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 70;
    try {
      status = body(*this);
    } catch (const std::exception& error) {
      fprintf(stderr, "child: %s\n", error.what());
    }
    _exit(status);
  }
  ~Child() {
    if (pid_ > 0) Kill();
    for (int fd : {up_[0], up_[1], down_[0], down_[1]}) close(fd);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int pid() const { return pid_; }

  // For the child: Report signals the end of a step with one byte of data; AwaitParent blocks until
  // the parent calls Continue.
  void Report(char news = '.') { EXPECT_EQ(write(up_[1], &news, 1), 1); }
  void AwaitParent() { ReadByte(down_[0]); }

  // For the parent.
  char AwaitReport() { return ReadByte(up_[0]); }
  void Continue() { EXPECT_EQ(write(down_[1], ".", 1), 1); }
  void Kill() {
    kill(pid_, SIGKILL);
    Wait();
  }
  // Returns the exit status, or 128 + the signal number.
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static char ReadByte(int fd) {
    char byte = 0;
    EXPECT_EQ(read(fd, &byte, 1), 1);
    return byte;
  }

  int pid_ = -1;
  int up_[2], down_[2];
};

inline ParamLayout SmallLayout() {
  ParamLayout layout;
  layout.Add("conv1/0", {20, 1, 5, 5});
  layout.Add("conv1/1", {20});
  return layout;
}

// A published buffer whose weights are all `value`.
inline std::unique_ptr<WeightBuffer> CreateFilled(const std::string& name, float value) {
  auto buffer = WeightBuffer::JoinTraining(name, SmallLayout());
  EXPECT_TRUE(buffer->created());
  for (int64_t i = 0; i < buffer->size(); ++i) buffer->data()[i] = value;
  buffer->Publish();
  return buffer;
}

// Leaves the file of a process that was killed while training. Returns its pid.
inline int LeaveStale(const std::string& name, bool published = true) {
  Child child([&](Child& self) {
    auto buffer = WeightBuffer::JoinTraining(name, SmallLayout());
    if (published) buffer->Publish();
    self.Report();
    self.AwaitParent();
    return 0;
  });
  child.AwaitReport();
  const int pid = child.pid();
  child.Kill();
  return pid;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_WEIGHTS_SHM_SUPPORT_H_
