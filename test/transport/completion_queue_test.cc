#include "transport/completion_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

TEST(CompletionQueue, FramesAreDoneWithWhenTheirTransmissionsAre) {
  CompletionQueue queue(4);
  EXPECT_EQ(queue.Finish(0), 0u);
  queue.Accept(1);
  queue.Accept(1);  // needs no transmission of its own, but cannot complete before the first
  queue.Accept(4);  // three copies
  EXPECT_EQ(queue.Finish(0), 0u);
  EXPECT_EQ(queue.Finish(1), 2u);
  EXPECT_EQ(queue.Finish(3), 2u);
  EXPECT_EQ(queue.Finish(4), 3u);
  queue.Accept(4);
  EXPECT_EQ(queue.Finish(4), 4u);
}

TEST(CompletionQueue, ManyFramesAreGivenBackLateButNeverEarlyOrNotAtAll) {
  Rng rng(test::Seed(), {1});
  for (const size_t entries : {1, 2, 8, 64}) {
    CompletionQueue queue(entries);
    std::vector<uint64_t> needs;  // transmissions that each frame needs
    uint64_t sent = 0, finished = 0, done = 0;
    for (int step = 0; step < 5000; ++step) {
      if (rng.Below(2) == 0) {
        sent += rng.Below(3);
        queue.Accept(sent);
        needs.push_back(sent);
      } else {
        finished += rng.Below(sent - finished + 1);
        const uint64_t now = queue.Finish(finished);
        EXPECT_GE(now, done);
        done = now;
        if (done > 0) {
          ASSERT_LE(needs[done - 1], finished);
        }
      }
    }
    EXPECT_EQ(queue.Finish(sent), needs.size());
  }
}

}  // namespace
}  // namespace millrace
