#include "transport/receive_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

TEST(ReceiveQueue, FramesThatAreLentTakeTheirPlacesUntilTheyAreReleased) {
  ReceiveQueue queue(4);
  std::vector<uint64_t> released;
  const auto release = [&](const ReceiveQueue::Entry& entry) {
    released.push_back(entry.position);
  };
  uint64_t put = 0, taken = 0;
  for (int round = 0; round < 10; ++round) {
    while (!queue.full()) queue.Put({{}, put++, 0, false});
    EXPECT_EQ(put, released.size() + 4);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.Take().position, taken++);
    EXPECT_TRUE(queue.full());
    EXPECT_TRUE(queue.waiting());
    EXPECT_EQ(queue.Next().position, taken);
    queue.Release(release);
    ASSERT_EQ(released.size(), taken);
    EXPECT_EQ(released.back(), taken - 1);
    EXPECT_FALSE(queue.full());
  }
  EXPECT_EQ(queue.Take().position, taken);
  EXPECT_FALSE(queue.waiting());
}

}  // namespace
}  // namespace millrace
