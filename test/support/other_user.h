// Runs test steps as another user of the machine.
#ifndef MILLRACE_TEST_SUPPORT_OTHER_USER_H_
#define MILLRACE_TEST_SUPPORT_OTHER_USER_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>

namespace millrace::test {

// The user "nobody".
constexpr uid_t kOtherUser = 65534;

// Why a step cannot run as another user on this machine; null if it can.
const char* WhyNoOtherUser();

// Runs `body` in a forked process of kOtherUser, without capabilities. Returns the result of
// `body`, 70 after an exception, or 128 + the number of the signal that ended the process.
int AsOtherUser(const std::function<int()>& body);

// Runs `body` in a forked process of this user, and returns as AsOtherUser does. SIGALRM ends the
// process after `seconds`, which bounds a hang.
int InChild(const std::function<int()>& body, unsigned seconds = 60);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_OTHER_USER_H_
