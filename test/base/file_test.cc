#include "base/files/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

int Files(const TempDir& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    (void)entry;
    ++count;
  }
  return count;
}

TEST(ReadFile, GivesTheWholeFile) {
  TempDir folder;
  const std::string content(200000, 'x');
  WriteFile(folder / "a", content);
  EXPECT_EQ(ReadFile(folder / "a"), content);
}

TEST(ReadFile, NamesWhatCannotBeRead) {
  TempDir folder;
  EXPECT_EQ(ErrorOf([&] { ReadFile(folder / "a"); }),
            folder.path() + "/a: No such file or directory");
  EXPECT_EQ(ErrorOf([&] { ReadFile(folder.path()); }), folder.path() + ": Is a directory");
}

TEST(AtomicFile, AppearsWholeAtCommit) {
  TempDir folder;
  WriteFile(folder / "a", "old");
  AtomicFile file(folder / "a");
  file.Write("ne");
  file.Write("w");
  EXPECT_EQ(ReadFile(folder / "a"), "old");
  file.Commit();
  EXPECT_EQ(ReadFile(folder / "a"), "new");
  EXPECT_EQ(Files(folder), 1);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  TempDir folder;
  WriteFile(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.Write("new");
  }
  EXPECT_EQ(ReadFile(folder / "a"), "old");
  EXPECT_EQ(Files(folder), 1);
}

// The temporary name is predictable.
TEST(AtomicFile, NeverWritesToAFileThatItsTemporaryNameLeadsTo) {
  TempDir folder;
  std::string temporary;
  {
    const AtomicFile file(folder / "a");
    temporary = std::filesystem::directory_iterator(folder.path())->path();
  }
  WriteFile(folder / "victim", "keep");
  const auto save = [&] {
    AtomicFile file(folder / "a");
    file.Write("new");
    file.Commit();
    EXPECT_EQ(ReadFile(folder / "a"), "new");
    EXPECT_FALSE(std::filesystem::is_symlink(folder / "a"));
    EXPECT_EQ(ReadFile(folder / "victim"), "keep");
  };
  std::filesystem::create_symlink(folder / "victim", temporary);
  save();
  std::filesystem::create_hard_link(folder / "victim", temporary);
  save();
}

TEST(AtomicFile, SaysWhyItCannotBeWritten) {
  TempDir folder;
  EXPECT_EQ(ErrorOf([&] { AtomicFile(folder / "none/a"); }),
            folder.path() + "/none/a: cannot be written: No such file or directory");
  // A file size limit acts like a full disk.
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = ErrorOf([&] {
    AtomicFile file(folder / "a");
    file.Write(std::string(2000, 'x'));
    file.Commit();
  });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error, folder.path() + "/a: cannot be written: File too large");
  EXPECT_EQ(Files(folder), 0);
}

std::vector<std::string> Names(const TempDir& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void SetAge(const std::string& path, int64_t seconds) {
  const timespec then = {time(nullptr) - seconds, 0};
  const timespec times[] = {then, then};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(StaleTemporaries, OfKilledProcessesAreRemovedAndThoseOfLivingOnesStay) {
  TempDir folder;
  LeaveTemporary(folder / "meant");
  LeaveTemporary(folder / "other");
  ASSERT_EQ(Files(folder), 2);
  AtomicFile file(folder / "meant");
  file.Write("new");
  const auto meant = [](std::string_view name) { return name == "meant"; };
  EXPECT_EQ(RemoveStaleTemporaries(folder.path(), meant), 1);
  EXPECT_EQ(Files(folder), 2);
  EXPECT_EQ(RemoveStaleTemporaries(folder.path(), meant), 0);
  file.Commit();
  EXPECT_EQ(ReadFile(folder / "meant"), "new");
}

TEST(StaleTemporaries, OfOtherSystemsAreRemovedWhenTheyAreOld) {
  TempDir folder;
  // A pid that is in use on this system, in a file of another system.
  const std::string name = folder / StrCat("a.00000000000000ff.", getpid(), ".77.tmp");
  const auto all = [](std::string_view) { return true; };
  WriteFile(name, "half");
  EXPECT_EQ(RemoveStaleTemporaries(folder.path(), all), 0);
  SetAge(name, kForeignTemporarySeconds - 60);
  EXPECT_EQ(RemoveStaleTemporaries(folder.path(), all), 0);
  SetAge(name, kForeignTemporarySeconds);
  EXPECT_EQ(RemoveStaleTemporaries(folder.path(), all), 1);
}

TEST(StaleTemporaries, AreNothingThatHasAnotherName) {
  TempDir folder;
  const std::vector<std::string> names = {"a",
                                          "a.00000000000000fF.1.1.tmp",
                                          "a.00000000000000ff.1.1",
                                          "a.00000000000000ff.1.tmp",
                                          "a.00000000000000ff.1.x.tmp",
                                          "a.00000000000000ff..1.tmp",
                                          "a.0000000000000ff.1.1.tmp",
                                          "a.1234.tmp",
                                          "tmp"};
  for (const std::string& name : names) {
    WriteFile(folder / name, "");
    SetAge(folder / name, 1'000'000);
  }
  MakeDirectories(folder / "b.00000000000000ff.1.1.tmp");
  SetAge(folder / "b.00000000000000ff.1.1.tmp", 1'000'000);
  EXPECT_EQ(RemoveStaleTemporaries(folder.path(), [](std::string_view) { return true; }), 0);
  EXPECT_EQ(Names(folder).size(), names.size() + 1);
  EXPECT_EQ(RemoveStaleTemporaries(folder / "none", [](std::string_view) { return true; }), 0);
}

TEST(ResolveBeside, PrefersTheWorkingDirectory) {
  TempDir folder;
  WriteFile(folder / "net.prototxt", "");
  EXPECT_EQ(ResolveBeside("net.prototxt", folder / "solver.prototxt"), folder / "net.prototxt");
  EXPECT_EQ(ResolveBeside("none.prototxt", folder / "solver.prototxt"), "none.prototxt");
  EXPECT_EQ(ResolveBeside("/abs", folder / "solver.prototxt"), "/abs");
}

}  // namespace
}  // namespace millrace::test
