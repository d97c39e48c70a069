// Ports for tests that run several programs on one machine.
#ifndef MILLRACE_TEST_SUPPORT_FREE_PORT_H_
#define MILLRACE_TEST_SUPPORT_FREE_PORT_H_

#include "transport/udp/socket.h"

namespace millrace::test {

// A UDP port at 127.0.0.1 that is free at the moment.
inline int FreePort() {
  UdpSocketOptions options;
  options.address = "127.0.0.1:0";
  return UdpSocket(options).local().port();
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_FREE_PORT_H_
