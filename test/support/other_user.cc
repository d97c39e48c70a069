#include "test/support/other_user.h"

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace millrace::test {

const char* WhyNoOtherUser() {
  return geteuid() == 0 ? nullptr : "acting as another user needs root";
}

int AsOtherUser(const std::function<int()>& body) {
  return InChild([&] {
    if (setgroups(0, nullptr) != 0 || setresgid(kOtherUser, kOtherUser, kOtherUser) != 0 ||
        setresuid(kOtherUser, kOtherUser, kOtherUser) != 0) {
      std::perror("child: cannot become another user");
      return 71;
    }
    return body();
  });
}

int InChild(const std::function<int()>& body, unsigned seconds) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    int status = 70;
    try {
      status = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    _exit(status);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace millrace::test
