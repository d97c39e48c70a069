#include "base/files/mapping_watch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "millrace/file_descriptor.h"
#include "test/support/support.h"

namespace millrace {
namespace {

constexpr size_t kPage = 4096;

// A file of some pages of 'x'. It is in memory, because death tests do not clean up.
class File {
 public:
  explicit File(size_t pages) : fd_(memfd_create("mapping_watch_test", MFD_CLOEXEC)) {
    const std::string content(pages * kPage, 'x');
    EXPECT_EQ(pwrite(fd(), content.data(), content.size(), 0),
              static_cast<ssize_t>(content.size()));
  }
  int fd() const { return fd_.get(); }
  void Truncate(size_t size) { ASSERT_EQ(ftruncate(fd(), static_cast<off_t>(size)), 0); }

 private:
  const FileDescriptor fd_;
};

// The first pages of a file, mapped.
class Mapping {
 public:
  Mapping(const File& file, size_t pages)
      : size_(pages * kPage), address_(mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd(), 0)) {
    EXPECT_NE(address_, MAP_FAILED);
  }
  ~Mapping() { munmap(address_, size_); }
  const char* page(size_t page) const { return static_cast<const char*>(address_) + page * kPage; }

 private:
  const size_t size_;
  void* const address_;
};

char Read(const char* at) { return *static_cast<const volatile char*>(at); }

TEST(MappingWatch, FindsTheWholeMappingAroundAnAddress) {
  const File file(3);
  const Mapping mapping(file, 3);
  const MappingWatch watch(mapping.page(1) + 10);
  EXPECT_EQ(watch.bytes().data(), mapping.page(0));
  EXPECT_EQ(watch.bytes(), std::string(3 * kPage, 'x'));
  EXPECT_FALSE(watch.lost());
  EXPECT_CONTAINS(test::ErrorOf([] { MappingWatch(nullptr); }), "/proc/self/maps");
}

TEST(MappingWatch, GivesZerosForPagesThatAreGoneAndRemembersTheFirst) {
  File file(8);
  const Mapping mapping(file, 8);
  const MappingWatch watch(mapping.page(0));
  file.Truncate(2 * kPage);
  EXPECT_EQ(Read(mapping.page(2) - 1), 'x');
  EXPECT_FALSE(watch.lost());
  EXPECT_EQ(Read(mapping.page(5) + 7), 0);
  EXPECT_EQ(watch.lost(), 5 * kPage);
  EXPECT_EQ(Read(mapping.page(3)), 0);
  EXPECT_EQ(Read(mapping.page(8) - 1), 0);
  EXPECT_EQ(watch.lost(), 5 * kPage);
  EXPECT_EQ(Read(mapping.page(0)), 'x');
}

TEST(MappingWatch, IsReadByManyThreadsWhileItIsCut) {
  for (int round = 0; round < 20; ++round) {
    File file(64);
    const Mapping mapping(file, 64), other_mapping(file, 64);
    const MappingWatch watch(mapping.page(0)), other(other_mapping.page(0));
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (!watch.lost()) {
          for (size_t page = 0; page < 64; ++page) {
            const char byte = Read(mapping.page(page));
            EXPECT_TRUE(byte == 'x' || watch.lost());
          }
        }
      });
    }
    file.Truncate(32 * kPage);
    for (std::thread& thread : threads) thread.join();
    EXPECT_FALSE(other.lost());
  }
}

TEST(MappingWatch, KnowsNothingOfTheFileThatItsPlaceWasUsedForBefore) {
  File file(2);
  {
    const Mapping mapping(file, 2);
    const MappingWatch watch(mapping.page(0));
    file.Truncate(kPage);
    EXPECT_EQ(Read(mapping.page(1)), 0);
  }
  const File whole(2);
  const Mapping mapping(whole, 2);
  const MappingWatch watch(mapping.page(0));
  EXPECT_FALSE(watch.lost());
  EXPECT_EQ(Read(mapping.page(1)), 'x');
}

TEST(BusErrorGuard, GivesZerosOnItsOwnThreadForAnyMapping) {
  File file(3);
  const Mapping mapping(file, 3);
  file.Truncate(kPage);
  const BusErrorGuard guard;
  EXPECT_EQ(Read(mapping.page(0)), 'x');
  EXPECT_FALSE(guard.hit());
  {
    const BusErrorGuard inner;
    EXPECT_EQ(Read(mapping.page(1)), 0);
  }
  EXPECT_TRUE(guard.hit());
}

// Each test runs in its own process, in which no handler is installed yet.
class MappingWatchDeathTest : public testing::Test {
 protected:
  MappingWatchDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Reads an unknown mapping after a MappingWatch has installed the handler.
  static void ReadOutside() {
    File file(2);
    const Mapping mapping(file, 1), outside(file, 2);
    const MappingWatch watch(mapping.page(0));
    file.Truncate(0);
    Read(mapping.page(0));  // handled
    Read(outside.page(1));
  }
};

TEST_F(MappingWatchDeathTest, OtherBusErrorsEndTheProcessAsBefore) {
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);  // a sanitizer installs its own handler
        ReadOutside();
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST_F(MappingWatchDeathTest, OtherBusErrorsReachTheHandlerThatWasThereBefore) {
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_flags = SA_SIGINFO;
        action.sa_sigaction = [](int, siginfo_t* info, void*) {
          _exit(info->si_addr != nullptr ? 7 : 8);
        };
        sigaction(SIGBUS, &action, nullptr);
        ReadOutside();
      },
      testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        signal(SIGBUS, [](int) { _exit(9); });
        ReadOutside();
      },
      testing::ExitedWithCode(9), "");
}

TEST_F(MappingWatchDeathTest, ASignalThatWasSentIsTakenAsBefore) {
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_IGN);
        const File file(1);
        const Mapping mapping(file, 1);
        const MappingWatch watch(mapping.page(0));
        raise(SIGBUS);
        _exit(3);
      },
      testing::ExitedWithCode(3), "");
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);
        const File file(1);
        const Mapping mapping(file, 1);
        const MappingWatch watch(mapping.page(0));
        raise(SIGBUS);
        _exit(3);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace millrace
