#include "base/threads/barrier.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "test/support/eventually.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// Runs `body` in `count` threads.
template <typename Body>
void InThreads(int count, Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Barrier, LetsNoThreadPassBeforeAllHaveComeInEveryPass) {
  constexpr int kThreads = 13, kPasses = 400;
  Barrier barrier(kThreads);
  std::atomic<int> came{0}, early{0};
  InThreads(kThreads, [&](int) {
    for (int pass = 1; pass <= kPasses; ++pass) {
      ++came;
      barrier.Wait();
      if (came < pass * kThreads) ++early;
      barrier.Wait();
    }
  });
  EXPECT_EQ(early, 0);
  EXPECT_EQ(came, kThreads * kPasses);
}

TEST(Barrier, OfOneThreadDoesNotWait) {
  Barrier barrier(1);
  for (int i = 0; i < 3; ++i) barrier.Wait();
}

TEST(Barrier, PoisonEndsTheWaitsOfAllOthersWithItsError) {
  constexpr int kThreads = 9;
  Barrier barrier(kThreads);
  std::atomic<int> waiting{0}, ended{0};
  InThreads(kThreads, [&](int i) {
    if (i == 0) {
      Eventually([&] { return waiting == kThreads - 1; });
      barrier.Poison(std::make_exception_ptr(Error("solver 0 has failed")));
      return;
    }
    ++waiting;
    if (ErrorOf([&] { barrier.Wait(); }) == "solver 0 has failed") ++ended;
  });
  EXPECT_EQ(ended, kThreads - 1);
}

TEST(Barrier, KeepsItsFirstPoison) {
  Barrier barrier(2);
  barrier.ThrowIfPoisoned();
  barrier.Poison(std::make_exception_ptr(Error("first")));
  barrier.Poison(std::make_exception_ptr(Error("second")));
  EXPECT_EQ(ErrorOf([&] { barrier.Wait(); }), "first");
  EXPECT_EQ(ErrorOf([&] { barrier.ThrowIfPoisoned(); }), "first");
}

}  // namespace
}  // namespace millrace::test
