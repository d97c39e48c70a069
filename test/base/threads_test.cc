// Queues and threads: no blocked call prevents a program from ending.
#include <atomic>
#include <chrono>
#include <thread>

#include "base/threads/queue.h"
#include "base/threads/thread.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

TEST(BoundedQueue, GivesItemsInOrder) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.Push(i));
  EXPECT_EQ(queue.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.Pop(), i);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(BoundedQueue, HoldsBackAPusherWhenFull) {
  BoundedQueue<int> queue(1);
  std::atomic<int> pushed{0};
  ErrorSink errors;
  Thread pusher(
      "pusher",
      [&] {
        for (int i = 0; i < 100; ++i) {
          queue.Push(i);
          ++pushed;
        }
      },
      &errors);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(queue.Pop(), i);
    EXPECT_LE(pushed, i + 2);
  }
  pusher.Join();
}

TEST(BoundedQueue, CloseWakesWhoWaitsAndKeepsWhatIsThere) {
  BoundedQueue<int> full(1), empty(1);
  full.Push(7);
  std::atomic<bool> pushed{true};
  std::optional<int> popped = 1;
  ErrorSink errors;
  Thread pusher(
      "pusher", [&] { pushed = full.Push(8); }, &errors);
  Thread popper(
      "popper", [&] { popped = empty.Pop(); }, &errors);
  full.Close();
  empty.Close();
  pusher.Join();
  popper.Join();
  EXPECT_FALSE(pushed);
  EXPECT_EQ(popped, std::nullopt);
  EXPECT_EQ(full.Pop(), 7);
  EXPECT_EQ(full.Pop(), std::nullopt);
}

TEST(Thread, KnowsItsProcessorTimeAlsoWithinALongPieceOfWork) {
  std::atomic<bool> enough{false};
  ErrorSink errors;
  Thread thread(
      "busy",
      [&] {
        while (!enough) {
        }
      },
      &errors);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60 * Patience());
  int rises = 0, falls = 0;
  for (int64_t last = 0; rises < 3 && std::chrono::steady_clock::now() < deadline;) {
    const int64_t now = thread.cpu_ns();
    rises += now > last;
    falls += now < last;
    last = now;
  }
  enough = true;
  thread.Join();
  EXPECT_EQ(rises, 3);
  EXPECT_EQ(falls, 0);
}

TEST(Thread, StopsWhereverItWaits) {
  BoundedQueue<int> empty(1), full(1);
  full.Push(1);
  ErrorSink errors;
  Thread popper(
      "popper", [&] { empty.Pop(); }, &errors);
  Thread pusher(
      "pusher", [&] { full.Push(2); }, &errors);
  Thread computer(
      "computer",
      [] {
        for (;;) InterruptionPoint();
      },
      &errors);
  popper.Stop();
  pusher.Stop();
  computer.Stop();
  EXPECT_FALSE(errors.failed());
}

TEST(Thread, ItsErrorReachesTheSinkAndTheFirstOneCounts) {
  int calls = 0;
  ErrorSink errors([&] { ++calls; });
  {
    Thread thread(
        "first", [] { throw Error("the first of ", 2); }, &errors);
    thread.Join();
  }
  {
    Thread thread(
        "second", [] { throw Error("another"); }, &errors);
    thread.Join();
  }
  EXPECT_TRUE(errors.failed());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(ErrorOf([&] { errors.RethrowIfFailed(); }), "the first of 2");
}

}  // namespace
}  // namespace millrace::test
