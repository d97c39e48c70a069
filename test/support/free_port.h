// Ports for tests that run several programs on one machine.
#ifndef MILLRACE_TEST_SUPPORT_FREE_PORT_H_
#define MILLRACE_TEST_SUPPORT_FREE_PORT_H_

namespace millrace::test {

// A UDP port that is free at all addresses of this machine. No other call, in any process, returns
// it until this process ends, and it is outside of the range from which the kernel chooses ports.
int FreePort();

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_FREE_PORT_H_
