// Back-pressure test for transports whose frames wait in the receiver's memory.
#ifndef MILLRACE_TEST_CONFORMANCE_BACK_PRESSURE_H_
#define MILLRACE_TEST_CONFORMANCE_BACK_PRESSURE_H_

#include "test/conformance/traffic.h"

namespace millrace::test {

// Sends `message` until the transport is busy or has accepted it `most` times. Returns the number
// accepted.
inline size_t SendUntilBusy(Transport* sender, NodeId to, const Bytes& message, size_t most) {
  const OutFrame frame = {to, {}, message};
  size_t count = 0;
  while (count < most && sender->Send({&frame, 1}).accepted == 1) ++count;
  return count;
}

// Several times, node 0 sends frames of `bytes` bytes to node 1, which does not read them until
// node 0 is busy. No frame may be lost. `group` must not have sent anything before.
inline void ExpectThatAReceiverStopsItsSender(Group* group, size_t bytes) {
  Transport &sender = *group->at(0), &receiver = *group->at(1);
  // Gets past the first window: only later credits reflect the receiver's capacity.
  ASSERT_TRUE(SendBytes(&sender, 1, Numbered(0, bytes)));
  EXPECT_EQ(Collect(&receiver, 1).size(), 1u);
  uint64_t sent = 1;
  for (int round = 0; round < 3; ++round) {
    const size_t more = SendUntilBusy(&sender, 1, Numbered(1, bytes), 100'000);
    EXPECT_GT(more, 0u);
    EXPECT_LT(more, 100'000u) << "nothing stops it";
    sent += more;
    EXPECT_EQ(Collect(&receiver, more).size(), more) << bytes << " bytes";
    EXPECT_TRUE(WaitForRoom(&sender, &receiver, [] {}));
  }
  EXPECT_EQ(receiver.counters().frames_received(), sent);
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONFORMANCE_BACK_PRESSURE_H_
