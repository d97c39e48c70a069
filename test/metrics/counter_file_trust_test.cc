// Counter files of users who do not trust each other: the files that training creates and that
// `millrace top` reads, in a directory where every user may create files.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/files/file.h"
#include "metrics/counter_file_layout.h"
#include "metrics/registry.h"
#include "millrace/metrics.h"
#include "test/support/other_user.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

namespace layout = counter_file_layout;

// The counter file of this process, with two metrics.
class CounterFile {
 public:
  explicit CounterFile(const std::string& folder, const std::string& title = "run")
      : registry_(folder) {
    iteration_ = registry_.AddGauge({"millrace_run_iteration", "Iteration."});
    registry_.AddGauge({"millrace_run_loss", "Loss."});
    registry_.Publish(title);
  }
  void Set(double iteration) { iteration_->Set(iteration); }
  const std::string& path() const { return registry_.path(); }

 private:
  MetricsRegistry registry_;
  Gauge* iteration_;
};

// A directory like /dev/shm: every user may create files, and remove only their own.
class SharedFolder : public TempDir {
 public:
  SharedFolder() { EXPECT_EQ(chmod(path().c_str(), 01777), 0); }
  // Path of the calling process's counter file.
  std::string Name() const { return *this / StrCat("millrace_counters.", getpid()); }
};

// Bytes of a valid counter file of this process.
std::string SoundBytes() {
  TempDir folder;
  const CounterFile counter_file(folder.path(), "sound");
  return ReadFile(counter_file.path());
}

struct stat StatusOf(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status;
}

// The lines about files that ReadCounterFiles skips. Expects it to read none.
std::vector<std::string> Skipped(const std::string& folder) {
  std::vector<std::string> skipped;
  EXPECT_TRUE(ReadCounterFiles(folder, &skipped).empty());
  return skipped;
}

// Runs in a child process, so that a hang fails only this test.
void ExpectSkipped(const SharedFolder& folder, const std::string& reason) {
  EXPECT_EQ(InChild([&] {
              std::vector<std::string> skipped;
              if (!ReadCounterFiles(folder.path(), &skipped).empty()) return 1;
              if (skipped.size() != 1) return 2;
              if (skipped[0].rfind(folder.path(), 0) != 0) return 3;
              return skipped[0].find(reason) == std::string::npos ? 4 : 0;
            }),
            0)
      << reason;
}

// ---- Writer ----

TEST(CounterFileWriter, NeverWritesThroughASymbolicLink) {
  SharedFolder folder;
  const std::string target = folder / "target";
  for (const char* suffix : {"", ".new"}) {
    SCOPED_TRACE(suffix);
    WriteFile(target, "keep");
    ASSERT_EQ(symlink(target.c_str(), (folder.Name() + suffix).c_str()), 0);
    try {
      CounterFile counter_file(folder.path());
      counter_file.Set(7);
      EXPECT_TRUE(S_ISREG(StatusOf(counter_file.path()).st_mode));
    } catch (const Error& error) {
      EXPECT_CONTAINS(error.what(), folder.Name() + ": exists and is a symbolic link");
    }
    EXPECT_EQ(ReadFile(target), "keep");
    EXPECT_TRUE(S_ISLNK(StatusOf(folder.Name() + suffix).st_mode));
    unlink((folder.Name() + suffix).c_str());
  }
}

TEST(CounterFileWriter, SaysWhatOccupiesItsName) {
  SharedFolder folder;
  const auto refusal = [&] { return ErrorOf([&] { CounterFile(folder.path()); }); };
  ASSERT_EQ(mkdir(folder.Name().c_str(), 0700), 0);
  EXPECT_CONTAINS(refusal(), folder.Name() + ": exists and is a folder");
  rmdir(folder.Name().c_str());
  ASSERT_EQ(mkfifo(folder.Name().c_str(), 0600), 0);
  EXPECT_CONTAINS(refusal(), folder.Name() + ": exists and is a FIFO");
}

TEST(CounterFileWriter, ReplacesAFileThatAnEndedProcessOfItsUserLeft) {
  SharedFolder folder;
  WriteFile(folder.Name(), "left");
  const ino_t left = StatusOf(folder.Name()).st_ino;
  const int kept = open(folder.Name().c_str(), O_RDONLY | O_CLOEXEC);  // keeps the inode in use
  CounterFile counter_file(folder.path());
  EXPECT_NE(StatusOf(folder.Name()).st_ino, left);
  close(kept);
  EXPECT_EQ(ReadCounterFiles(folder.path()).size(), 1u);
}

TEST(CounterFileWriter, CreatesAFileThatOtherUsersCannotOpen) {
  SharedFolder folder;
  const mode_t before = umask(0);
  CounterFile counter_file(folder.path());
  umask(before);
  EXPECT_EQ(StatusOf(counter_file.path()).st_mode & 07777, 0600u);
  EXPECT_EQ(StatusOf(counter_file.path()).st_uid, geteuid());
  if (WhyNoOtherUser() != nullptr) return;
  EXPECT_EQ(AsOtherUser([&] {
              if (truncate(counter_file.path().c_str(), 0) == 0) return 1;
              return open(counter_file.path().c_str(), O_RDONLY | O_CLOEXEC) < 0 ? 0 : 2;
            }),
            0);
}

// Another user who guesses the pid creates files in advance and truncates them later.
TEST(CounterFileWriter, NeverUsesAFileOfAnotherUser) {
  if (const char* reason = WhyNoOtherUser()) GTEST_SKIP() << reason;
  for (const char* suffix : {"", ".new"}) {
    SCOPED_TRACE(suffix);
    SharedFolder folder;
    const int status = InChild([&] {
      const std::string name = folder.Name(), planted = name + suffix;
      if (AsOtherUser([&] {
            WriteFile(planted, "planted");
            return chmod(planted.c_str(), 0666);
          }) != 0) {
        return 1;
      }
      std::unique_ptr<CounterFile> counter_file;
      try {
        counter_file = std::make_unique<CounterFile>(folder.path());
      } catch (const Error& error) {
        const std::string expected =
            StrCat(planted, ": exists and belongs to user ", kOtherUser, ", expected user 0");
        if (std::string(error.what()).find(expected) == std::string::npos) return 2;
      }
      if (AsOtherUser([&] {
            truncate(name.c_str(), 0);
            truncate(planted.c_str(), 0);
            return 0;
          }) != 0) {
        return 3;
      }
      if (counter_file) counter_file->Set(7);
      counter_file.reset();
      return StatusOf(planted).st_uid == kOtherUser ? 0 : 4;
    });
    EXPECT_EQ(status, 0);
  }
}

TEST(CounterFileWriter, RemovesItsOwnFileOnly) {
  SharedFolder folder;
  auto counter_file = std::make_unique<CounterFile>(folder.path());
  const std::string path = counter_file->path();
  ASSERT_EQ(rename(path.c_str(), (folder / "elsewhere").c_str()), 0);
  WriteFile(path, "of somebody else");
  counter_file.reset();
  EXPECT_EQ(ReadFile(path), "of somebody else");
}

TEST(CounterFileWriter, LeavesNothingWhereItFails) {
  SharedFolder folder;
  ASSERT_EQ(mkdir(folder.Name().c_str(), 0700), 0);
  ErrorOf([&] { CounterFile(folder.path()); });
  rmdir(folder.Name().c_str());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(CounterFileWriter, RefusesMoreMetricsThanReadersTake) {
  SharedFolder folder;
  MetricsRegistry registry(folder.path());
  const auto add = [&] {
    registry.AddCounter({"millrace_run_tests_total", "Tests."},
                        {{"net", std::to_string(registry.room())}});
  };
  while (registry.room() > 0) add();
  EXPECT_CONTAINS(ErrorOf(add), "the registry has 32768 metrics already");
  registry.Publish("full");
  EXPECT_EQ(ReadCounterFiles(folder.path()).at(0).metrics.size(), 32768u);
}

// A page of a mapped file that the file system has no room for must not end the process.
TEST(CounterFileWriter, GoesOnInPrivateMemoryWhereTheFileSystemIsFull) {
  if (geteuid() != 0) GTEST_SKIP() << "mounts a file system: needs root";
  SharedFolder folder;
  EXPECT_EQ(InChild([&] {
              if (unshare(CLONE_NEWNS) != 0) return 0;  // not permitted in this container
              mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
              if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0) return 0;
              MetricsRegistry registry(folder.path());
              std::vector<Counter*> counters;
              for (int i = 0; i < 3000; ++i) {
                counters.push_back(registry.AddCounter({"millrace_run_tests_total", "Tests."},
                                                       {{"net", std::to_string(i)}}));
              }
              for (Counter* each : counters) each->Add(2);
              if (registry.Read().Value("run", "tests") != 6000) return 1;
              const std::string reason = ErrorOf([&] { registry.Publish("full"); });
              return reason.find("no room for more metrics") == std::string::npos ? 2 : 0;
            }),
            0);
}

// ---- Reader ----

TEST(CounterFileReader, SkipsWhatIsNoRegularFile) {
  SharedFolder folder;
  ASSERT_EQ(mkfifo(folder.Name().c_str(), 0600), 0);
  ExpectSkipped(folder, "is a FIFO, expected a regular file");
  unlink(folder.Name().c_str());

  WriteFile(folder / "target", SoundBytes());
  ASSERT_EQ(symlink((folder / "target").c_str(), folder.Name().c_str()), 0);
  ExpectSkipped(folder, "is a symbolic link, expected a regular file");
  unlink(folder.Name().c_str());

  ASSERT_EQ(mkdir(folder.Name().c_str(), 0700), 0);
  ExpectSkipped(folder, "is a folder, expected a regular file");
  rmdir(folder.Name().c_str());

  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, folder.Name().c_str(), sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ExpectSkipped(folder, "is a socket, expected a regular file");
  close(fd);
}

// A process that opens a leased file blocks until the holder releases the lease: up to 45 s by
// default.
TEST(CounterFileReader, DoesNotWaitForALease) {
  SharedFolder folder;
  WriteFile(folder.Name(), SoundBytes());
  signal(SIGIO, SIG_IGN);  // signal that notifies the lease holder
  const int fd = open(folder.Name().c_str(), O_RDWR | O_CLOEXEC);
  if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
    close(fd);
    GTEST_SKIP() << "the file system of " << folder.path() << " has no leases";
  }
  EXPECT_EQ(InChild(
                [&] {
                  std::vector<std::string> skipped;
                  if (!ReadCounterFiles(folder.path(), &skipped).empty()) return 1;
                  return skipped.size() == 1 &&
                                 skipped[0].find("cannot be read: ") != std::string::npos
                             ? 0
                             : 2;
                },
                30),
            0);
  close(fd);
  signal(SIGIO, SIG_DFL);
}

// Writes a number into the bytes of a file.
template <typename T>
void PutAt(size_t offset, T value, std::string* bytes) {
  std::memcpy(bytes->data() + offset, &value, sizeof(value));
}

TEST(CounterFileReader, AllocatesNothingForAFileOfAnotherSize) {
  SharedFolder folder;
  std::string bytes = SoundBytes();
  ASSERT_EQ(bytes.size(), 8716288u);
  WriteFile(folder.Name(), bytes);
  ASSERT_EQ(truncate(folder.Name().c_str(), off_t{1} << 40), 0);
  ExpectSkipped(folder, "has 1099511627776 bytes, expected 8716288");
  ASSERT_EQ(truncate(folder.Name().c_str(), 127), 0);
  ExpectSkipped(folder, "has 127 bytes, expected 8716288");
  WriteFile(folder.Name(), bytes + "x");
  ExpectSkipped(folder, "has 8716289 bytes, expected 8716288");
  PutAt(offsetof(layout::Head, metrics), 0xffffffffu, &bytes);
  WriteFile(folder.Name(), bytes);
  ExpectSkipped(folder, "announces 4294967295 metrics of 2 names, expected at most 32768 and 255");
  PutAt(offsetof(layout::Head, metrics), 2u, &bytes);
  PutAt(offsetof(layout::Head, families), 256u, &bytes);
  WriteFile(folder.Name(), bytes);
  ExpectSkipped(folder, "announces 2 metrics of 256 names");
}

TEST(CounterFileReader, SkipsAFileThatIsNone) {
  SharedFolder folder;
  WriteFile(folder.Name(), std::string(8716288, 'x'));
  ExpectSkipped(folder, "begins with other letters than MILLCNT1");
  std::string bytes = SoundBytes();
  PutAt(offsetof(layout::Head, version), 2u, &bytes);
  WriteFile(folder.Name(), bytes);
  ExpectSkipped(folder, "has format 2, expected 1");
  WriteFile(folder.Name(), SoundBytes());
  ASSERT_EQ(rename(folder.Name().c_str(), (folder / "millrace_counters.1").c_str()), 0);
  ExpectSkipped(folder, StrCat("is of process ", getpid(), ", expected process 1"));
}

// A file that is written wrongly, on purpose or not, has no metric without a name.
TEST(CounterFileReader, EndsBeforeAMetricWithoutAName) {
  SharedFolder folder;
  std::string bytes = SoundBytes();
  PutAt(layout::kMetricsAt + sizeof(layout::MetricRow), 2u, &bytes);
  WriteFile(folder.Name(), bytes);
  const CounterFileReading reading = ReadCounterFiles(folder.path()).at(0);
  ASSERT_EQ(reading.metrics.size(), 1u);
  EXPECT_EQ(reading.NumberOf(reading.metrics[0]), "iteration");
}

TEST(CounterFileReader, LooksAtNoOtherNames) {
  SharedFolder folder;
  for (const char* name :
       {"millrace_counters.", "millrace_counters.0", "millrace_counters.01", "millrace_counters.-1",
        "millrace_counters.1x", "millrace_counters.7.new", "millrace_counters.99999999999",
        "millrace_counters1"}) {
    ASSERT_EQ(mkfifo((folder / name).c_str(), 0600), 0);
  }
  EXPECT_TRUE(Skipped(folder.path()).empty());
}

TEST(CounterFileReader, SurvivesFilesThatAreCutShortWhileItReads) {
  SharedFolder folder;
  const std::string bytes = SoundBytes(), path = folder.Name();
  WriteFile(path, bytes);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) {
      truncate(path.c_str(), 0);
      truncate(path.c_str(), 200);
      WriteFile(path, bytes);
    }
  }
  for (int i = 0; i < 3000; ++i) {
    for (const CounterFileReading& reading : ReadCounterFiles(folder.path())) {
      EXPECT_EQ(reading.metrics.size(), 2u);
    }
  }
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(CounterFileReader, ReadsFilesOfItsUserOnlyUnlessItIsRoot) {
  if (const char* reason = WhyNoOtherUser()) GTEST_SKIP() << reason;
  SharedFolder folder;
  CounterFile counter_file(folder.path(), "of root");
  ASSERT_EQ(chmod(counter_file.path().c_str(), 0644), 0);
  EXPECT_EQ(AsOtherUser([&] {
              std::vector<std::string> skipped;
              if (!ReadCounterFiles(folder.path(), &skipped).empty()) return 1;
              const std::string expected =
                  StrCat(counter_file.path(), ": belongs to user 0, and this process runs as user ",
                         kOtherUser);
              return skipped == std::vector<std::string>{expected} ? 0 : 2;
            }),
            0);
  // Root reads the file and reports its owner.
  ASSERT_EQ(chown(counter_file.path().c_str(), kOtherUser, kOtherUser), 0);
  const std::vector<CounterFileReading> readings = ReadCounterFiles(folder.path());
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_EQ(readings[0].user, kOtherUser);
  EXPECT_EQ(readings[0].title, "of root");
}

TEST(CounterFileReader, RemovesWhatEndedProcessesOfItsUserLeftAndNoOthers) {
  if (const char* reason = WhyNoOtherUser()) GTEST_SKIP() << reason;
  SharedFolder folder;
  const auto leave = [&] {
    new CounterFile(folder.path(), "killed");
    return 0;
  };
  ASSERT_EQ(InChild(leave), 0);
  EXPECT_TRUE(Skipped(folder.path()).empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  ASSERT_EQ(AsOtherUser(leave), 0);
  const std::vector<std::string> skipped = Skipped(folder.path());
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_CONTAINS(skipped[0], "was left by a process that has ended");
  EXPECT_CONTAINS(skipped[0], StrCat("user ", kOtherUser));
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
}

// A stopped process with a sparse counter file of the largest possible size.
class LargestFile {
 public:
  explicit LargestFile(const std::string& folder) : pid_(fork()) {
    if (pid_ == 0) {
      const std::string path = StrCat(folder, "/millrace_counters.", getpid());
      std::string head = SoundBytes().substr(0, sizeof(layout::Head));
      PutAt(offsetof(layout::Head, families), layout::kMaxFamilies, &head);
      PutAt(offsetof(layout::Head, metrics), layout::kMaxMetrics, &head);
      WriteFile(path, head);
      if (truncate(path.c_str(), layout::kFileBytes) != 0) _exit(1);
      raise(SIGSTOP);
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  ~LargestFile() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  LargestFile(const LargestFile&) = delete;
  LargestFile& operator=(const LargestFile&) = delete;

 private:
  const pid_t pid_;
};

TEST(CounterFileReader, ReadsSoManyBytesOfAllFilesTogether) {
  SharedFolder folder;
  std::vector<std::unique_ptr<LargestFile>> files;
  for (int i = 0; i < 9; ++i) files.push_back(std::make_unique<LargestFile>(folder.path()));
  std::vector<std::string> skipped;
  EXPECT_EQ(ReadCounterFiles(folder.path(), &skipped).size(), 7u);
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_CONTAINS(skipped[0], "has 8716288 bytes of metrics, and there is room for 6094848 more");
}

TEST(CounterFileReader, SaysOfManyFilesHowManyMoreThereAre) {
  SharedFolder folder;
  for (int i = 1; i <= 30; ++i) WriteFile(folder / StrCat("millrace_counters.", i), "");
  const std::vector<std::string> skipped = Skipped(folder.path());
  ASSERT_EQ(skipped.size(), 17u);
  EXPECT_CONTAINS(skipped[0], "millrace_counters.1: ");
  EXPECT_EQ(skipped[16], folder.path() + ": 14 more such files");
}

}  // namespace
}  // namespace millrace::test
