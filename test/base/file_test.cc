#include "base/file.h"

#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

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

// Its temporary name can be guessed.
TEST(AtomicFile, NeverWritesToAFileThatItsTemporaryNameLeadsTo) {
  TempDir folder;
  WriteFile(folder / "victim", "keep");
  const std::string temporary = folder / ("a." + std::to_string(getpid()) + ".tmp");
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
  // A limit on the size of files stands for a full disk.
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

TEST(ResolveBeside, PrefersTheWorkingDirectory) {
  TempDir folder;
  WriteFile(folder / "net.prototxt", "");
  EXPECT_EQ(ResolveBeside("net.prototxt", folder / "solver.prototxt"), folder / "net.prototxt");
  EXPECT_EQ(ResolveBeside("none.prototxt", folder / "solver.prototxt"), "none.prototxt");
  EXPECT_EQ(ResolveBeside("/abs", folder / "solver.prototxt"), "/abs");
}

}  // namespace
}  // namespace millrace::test
