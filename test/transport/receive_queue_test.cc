#include "transport/receive_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

TEST(ReceiveQueue, FramesThatAreLentTakeTheirPlacesUntilTheyAreReleased) {
  ReceiveQueue inbox(4);
  std::vector<uint64_t> released;
  const auto release = [&](const ReceiveQueue::Entry& entry) {
    released.push_back(entry.position);
  };
  uint64_t put = 0, taken = 0;
  for (int round = 0; round < 10; ++round) {
    while (!inbox.full()) inbox.Put({{}, put++, 0, false});
    EXPECT_EQ(put, released.size() + 4);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(inbox.Take().position, taken++);
    EXPECT_TRUE(inbox.full());
    EXPECT_TRUE(inbox.waiting());
    EXPECT_EQ(inbox.Next().position, taken);
    inbox.Release(release);
    ASSERT_EQ(released.size(), taken);
    EXPECT_EQ(released.back(), taken - 1);
    EXPECT_FALSE(inbox.full());
  }
  EXPECT_EQ(inbox.Take().position, taken);
  EXPECT_FALSE(inbox.waiting());
}

}  // namespace
}  // namespace millrace
