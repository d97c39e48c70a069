#include "collective/shared_memory_group.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

std::string NewName() {
  static std::atomic<int> number{0};
  return "test" + std::to_string(getpid()) + "x" + std::to_string(++number);
}

template <typename Body>
void ExpectError(Body body, const std::string& text) {
  const std::string error = ErrorOf(body);
  EXPECT_NE(error.find(text), std::string::npos) << error;
}

// Calls work(group) for each of `size` members, in a thread of its own.
template <typename Work>
void RunMembers(int size, size_t floats, Work work) {
  const std::string name = NewName();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([=] {
      work(*JoinSharedMemoryGroup({.name = name, .rank = rank, .size = size, .floats = floats}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/millrace.group." + name));
}

// Whole numbers, so that sums are exact in any order.
TEST(SharedMemoryGroup, SumsEveryArrayOfEveryRound) {
  for (const int size : {1, 2, 3}) {
    std::atomic<int> wrong{0}, values{0};
    RunMembers(size, 1000, [&](Collective& member) {
      for (int round = 0; round < 50; ++round) {
        std::vector<float> one(7 + round, static_cast<float>(member.rank() + round));
        std::vector<float> other(500, static_cast<float>(10 * member.rank()));
        member.StartSum(one);
        member.StartSum(other);
        member.Wait();
        const int ranks = size * (size - 1) / 2;
        for (const float value : one) wrong += value != static_cast<float>(ranks + size * round);
        for (const float value : other) wrong += value != static_cast<float>(10 * ranks);
        values += static_cast<int>(one.size());
      }
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(values, 0);
  }
}

TEST(SharedMemoryGroup, BroadcastsMoreBytesThanItsMemory) {
  std::atomic<int> wrong{0};
  RunMembers(3, 10, [&](Collective& member) {
    std::vector<float> values(101, member.rank() == 0 ? 5.0f : 0.0f);
    member.Broadcast(std::as_writable_bytes(std::span(values)));
    for (const float value : values) wrong += value != 5;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(SharedMemoryGroup, RefusesWrongMembers) {
  ExpectError([] { JoinSharedMemoryGroup({.name = "a b", .floats = 1}); }, "letters and digits");
  ExpectError([] { JoinSharedMemoryGroup({.name = "a", .rank = 2, .size = 2}); }, "rank 2 of 2");
  ExpectError(
      [] {
        JoinSharedMemoryGroup(
            {.name = NewName(), .rank = 0, .size = 2, .floats = 1, .seconds = 0.05});
      },
      "rank 1 of 2 has not come within 0.05 s");
  const auto alone = JoinSharedMemoryGroup({.name = NewName(), .floats = 3});
  std::vector<float> values(4);
  ExpectError([&] { alone->StartSum(values); }, "4 values to sum, expected at most 3");
}

TEST(SharedMemoryGroup, NoticesMembersThatDiffer) {
  const std::string name = NewName();
  std::atomic<bool> waits{false}, refused{false};
  std::thread first([&] {
    ExpectError(
        [&] {
          JoinSharedMemoryGroup({.name = name, .rank = 0, .size = 2, .floats = 8}, [&] {
            waits = true;
            if (refused) throw Error("enough");
          });
        },
        "enough");
  });
  while (!waits) std::this_thread::yield();
  ExpectError([&] { JoinSharedMemoryGroup({.name = name, .rank = 1, .size = 2, .floats = 9}); },
              "has another net or number of members");
  ExpectError([&] { JoinSharedMemoryGroup({.name = name, .rank = 0, .size = 2, .floats = 8}); },
              "there are two members of rank 0");
  refused = true;
  first.join();
}

// Killed and ended members end the waits of the others.
// A member is killed while it waits for the other. Its memory goes with the next group, and not
// that of a member that still waits.
TEST(SharedMemoryGroup, RemovesWhatKilledMembersHaveLeft) {
  const auto file_of = [](const std::string& name) { return "/dev/shm/millrace.group." + name; };
  // Returns when the member waits.
  const auto start = [&](const std::string& name) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const auto tell = [&] { EXPECT_EQ(write(ends[1], "x", 1), 1); };
      JoinSharedMemoryGroup({.name = name, .rank = 0, .size = 2, .floats = 10}, tell);
      _exit(0);
    }
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    for (const int end : ends) close(end);
    return child;
  };
  const std::string killed = NewName(), waiting = NewName();
  const pid_t first = start(killed), second = start(waiting);
  kill(first, SIGKILL);
  waitpid(first, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(file_of(killed)));
  JoinSharedMemoryGroup({.name = NewName(), .rank = 0, .size = 1, .floats = 10});
  EXPECT_FALSE(std::filesystem::exists(file_of(killed)));
  EXPECT_TRUE(std::filesystem::exists(file_of(waiting)));
  kill(second, SIGKILL);
  waitpid(second, nullptr, 0);
  JoinSharedMemoryGroup({.name = NewName(), .rank = 0, .size = 1, .floats = 10});
  EXPECT_FALSE(std::filesystem::exists(file_of(waiting)));
}

TEST(SharedMemoryGroup, ThrowsWhenAMemberHasEnded) {
  for (const bool killed : {true, false}) {
    const std::string name = NewName();
    const pid_t child = fork();
    if (child == 0) {
      auto group = JoinSharedMemoryGroup({.name = name, .rank = 1, .size = 2, .floats = 4});
      std::vector<float> values(4, 1);
      group->Sum(values);
      if (killed) raise(SIGKILL);
      group.reset();
      _exit(0);
    }
    const auto group = JoinSharedMemoryGroup({.name = name, .rank = 0, .size = 2, .floats = 4});
    std::vector<float> values(4, 2);
    group->Sum(values);
    EXPECT_EQ(values, std::vector<float>(4, 3));
    int status = 0;
    waitpid(child, &status, 0);
    ExpectError([&] { group->Sum(values); }, "rank 1 of 2 has ended");
  }
}

}  // namespace
}  // namespace millrace::test
