// Counter files in /dev/shm, where every user of the machine may create files.
#include <sys/stat.h>

#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

std::string CounterFileOf(int pid) { return StrCat("/dev/shm/millrace_counters.", pid); }

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Top, SaysOnceWhatItSkips) {
  const std::string path = CounterFileOf(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const CommandResult once = Millrace({"top", "--once", "--interval=0.1", "--json"});
  const CommandResult thrice =
      test::Run({"/bin/sh", "-c", Binary() + " top --interval=0.1 --json | head -n 3"});
  unlink(path.c_str());
  EXPECT_EQ(once.status, 0) << once.errors;
  EXPECT_EQ(Count(once.output, "\n"), 1);
  EXPECT_EQ(Count(thrice.output, "\n"), 3);
  for (const CommandResult& result : {once, thrice}) {
    EXPECT_EQ(Count(result.errors, "skipped: " + path + ": is a FIFO, expected a regular file\n"),
              1)
        << result.errors;
  }
}

TEST(Top, MissesATrainingThatGoesOnWithoutACounterFile) {
  Workspace work;
  WriteFile(work / "target", "keep");
  const std::string solver = work.Write("run", Workspace::Solver(20));
  Process training({"/bin/sh", "-c",
                    StrCat("ln -s ", work / "target", " /dev/shm/millrace_counters.$$; exec ",
                           Binary(), " train --solver=", solver)});
  const std::string path = CounterFileOf(training.pid());
  const CommandResult result = training.Wait();
  EXPECT_EQ(unlink(path.c_str()), 0);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "Optimization Done.");
  EXPECT_EQ(Count(result.errors, "millrace top will not show this run: " + path +
                                     ": exists and is a symbolic link; remove it\n"),
            1)
      << result.errors;
  EXPECT_EQ(ReadFile(work / "target"), "keep");
}

}  // namespace
}  // namespace millrace::test
