#include "base/mapped_file.h"

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
  explicit File(size_t pages) : fd_(memfd_create("mapped_file_test", MFD_CLOEXEC)) {
    const std::string content(pages * kPage, 'x');
    EXPECT_EQ(pwrite(fd(), content.data(), content.size(), 0),
              static_cast<ssize_t>(content.size()));
  }
  int fd() const { return fd_.get(); }
  void Truncate(size_t size) { ASSERT_EQ(ftruncate(fd(), static_cast<off_t>(size)), 0); }

 private:
  const FileDescriptor fd_;
};

char Read(const char* at) { return *static_cast<const volatile char*>(at); }

TEST(MappedFile, ShowsTheFile) {
  const File file(2);
  const MappedFile mapped(file.fd(), kPage + 10);
  EXPECT_EQ(mapped.bytes(), std::string(kPage + 10, 'x'));
  EXPECT_FALSE(mapped.lost());
}

TEST(MappedFile, GivesZerosForPagesThatAreGoneAndRemembersTheFirst) {
  File file(8);
  const MappedFile mapped(file.fd(), 8 * kPage);
  file.Truncate(2 * kPage);
  EXPECT_EQ(Read(mapped.bytes().data() + 2 * kPage - 1), 'x');
  EXPECT_FALSE(mapped.lost());
  EXPECT_EQ(Read(mapped.bytes().data() + 5 * kPage + 7), 0);
  EXPECT_EQ(mapped.lost(), 5 * kPage);
  EXPECT_EQ(Read(mapped.bytes().data() + 3 * kPage), 0);
  EXPECT_EQ(Read(mapped.bytes().data() + 8 * kPage - 1), 0);
  EXPECT_EQ(mapped.lost(), 5 * kPage);
  EXPECT_EQ(Read(mapped.bytes().data()), 'x');
}

TEST(MappedFile, IsReadByManyThreadsWhileItIsCut) {
  for (int round = 0; round < 20; ++round) {
    File file(64);
    const MappedFile mapped(file.fd(), 64 * kPage), other(file.fd(), 64 * kPage);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (!mapped.lost()) {
          for (size_t page = 0; page < 64; ++page) {
            const char byte = Read(mapped.bytes().data() + page * kPage);
            EXPECT_TRUE(byte == 'x' || mapped.lost());
          }
        }
      });
    }
    file.Truncate(32 * kPage);
    for (std::thread& thread : threads) thread.join();
    EXPECT_FALSE(other.lost());
  }
}

TEST(MappedFile, KnowsNothingOfTheFileThatItsPlaceWasUsedForBefore) {
  File file(2);
  {
    const MappedFile mapped(file.fd(), 2 * kPage);
    file.Truncate(kPage);
    EXPECT_EQ(Read(mapped.bytes().data() + kPage), 0);
  }
  const File whole(2);
  const MappedFile mapped(whole.fd(), 2 * kPage);
  EXPECT_FALSE(mapped.lost());
  EXPECT_EQ(Read(mapped.bytes().data() + kPage), 'x');
}

// A mapping that the module under test does not know.
const char* MapOutside(const File& file, size_t size) {
  void* const address = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
  EXPECT_NE(address, MAP_FAILED);
  return static_cast<const char*>(address);
}

TEST(BusErrorGuard, GivesZerosOnItsOwnThreadForAnyMapping) {
  File file(3);
  const char* const outside = MapOutside(file, 3 * kPage);
  file.Truncate(kPage);
  const BusErrorGuard guard;
  EXPECT_EQ(Read(outside), 'x');
  EXPECT_FALSE(guard.hit());
  {
    const BusErrorGuard inner;
    EXPECT_EQ(Read(outside + kPage), 0);
  }
  EXPECT_TRUE(guard.hit());
  munmap(const_cast<char*>(outside), 3 * kPage);
}

// Each test runs in its own process, in which no handler is installed yet.
class MappedFileDeathTest : public testing::Test {
 protected:
  MappedFileDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Reads an unknown mapping after a MappedFile has installed the handler.
  static void ReadOutside() {
    File file(2);
    const MappedFile mapped(file.fd(), kPage);
    const char* const outside = MapOutside(file, 2 * kPage);
    file.Truncate(0);
    Read(mapped.bytes().data());  // handled
    Read(outside + kPage);
  }
};

TEST_F(MappedFileDeathTest, OtherBusErrorsEndTheProcessAsBefore) {
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);  // a sanitizer installs its own handler
        ReadOutside();
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST_F(MappedFileDeathTest, OtherBusErrorsReachTheHandlerThatWasThereBefore) {
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

TEST_F(MappedFileDeathTest, ASignalThatWasSentIsTakenAsBefore) {
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_IGN);
        const File file(1);
        const MappedFile mapped(file.fd(), kPage);
        raise(SIGBUS);
        _exit(3);
      },
      testing::ExitedWithCode(3), "");
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);
        const File file(1);
        const MappedFile mapped(file.fd(), kPage);
        raise(SIGBUS);
        _exit(3);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace millrace
