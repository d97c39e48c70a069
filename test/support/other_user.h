// Steps of a test that are done by another user of the machine.
#ifndef MILLRACE_TEST_SUPPORT_OTHER_USER_H_
#define MILLRACE_TEST_SUPPORT_OTHER_USER_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>

namespace millrace::test {

// The user "nobody".
constexpr uid_t kOtherUser = 65534;

// Why no step can be done by another user here; null if it can.
const char* WhyNoOtherUser();

// Runs `body` in a forked process of kOtherUser, without capabilities. Returns what `body`
// returns, 70 after an exception, or 128 + the signal that ended the process.
int AsOtherUser(const std::function<int()>& body);

// Runs `body` in a forked process of this user. Returns as AsOtherUser does. After `seconds`
// the process is ended by SIGALRM: a bound for what must not hang.
int InChild(const std::function<int()>& body, unsigned seconds = 60);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_OTHER_USER_H_
