// millrace plot.
#include <cstdlib>

#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

constexpr char kRows[] =
    R"({"time":0,"iter":0,"run":{"name":"LeNet","solvers":2}})"
    "\n"
    R"({"time":1.5,"iter":10,"train":{"loss":0.3}})"
    "\n"
    R"({"time":2,"iter":20,"test":{"net":0,"outputs":{"accuracy":0.9,"loss":0.2}}})"
    "\n";

TEST(Plot, DrawsEveryRunUnderTheNameOfItsFile) {
  if (test::Run({"/bin/sh", "-c", "command -v gnuplot"}).status != 0) {
    GTEST_SKIP() << "gnuplot is not installed (Debian package gnuplot-nox)";
  }
  TempDir folder;
  WriteFile(folder / "one.jsonl", kRows);
  WriteFile(folder / "it's `two`.jsonl", kRows);
  for (const char* name : {"curves.svg", "curves.png"}) {
    const CommandResult result =
        Millrace({"plot", folder / "one.jsonl", folder / "it's `two`.jsonl", "-o", folder / name});
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(PlainLines(result.errors).size(), 0u) << result.errors;
    EXPECT_CONTAINS(result.errors, "Drew 2 runs into " + folder / name);
  }
  const std::string svg = ReadFile(folder / "curves.svg");
  EXPECT_CONTAINS(svg, ">one (2 solvers): final test accuracy 90.00 % (iteration 20, 2.0 s)<");
  EXPECT_CONTAINS(svg, ">it's `two` (2 solvers): final test accuracy 90.00 %");
  EXPECT_EQ(ReadFile(folder / "curves.png").substr(1, 3), "PNG");
}

TEST(Plot, NamesThePackageWhereGnuplotIsMissing) {
  TempDir folder;
  WriteFile(folder / "one.jsonl", kRows);
  const std::string old_path = getenv("PATH");
  setenv("PATH", folder.path().c_str(), 1);
  const CommandResult result =
      Millrace({"plot", folder / "one.jsonl", "-o", folder / "curves.svg"});
  setenv("PATH", old_path.c_str(), 1);
  ExpectOneLine(result, {"millrace: gnuplot", "not installed", "gnuplot-nox"});
  EXPECT_FALSE(FileExists(folder / "curves.svg"));
}

TEST(Plot, RefusesToDrawNothing) {
  TempDir folder;
  WriteFile(folder / "empty.jsonl", "");
  WriteFile(folder / "begun.jsonl", R"({"time":0,"iter":0,"run":{"name":"LeNet","solvers":2}})");
  ExpectOneLine(Millrace({"plot", folder / "empty.jsonl", "-o", folder / "curves.svg"}),
                {"empty.jsonl: holds no metrics rows"});
  ExpectOneLine(Millrace({"plot", folder / "begun.jsonl", "-o", folder / "curves.svg"}),
                {"nothing to plot: the runs given hold no training loss and no test"});
  EXPECT_FALSE(FileExists(folder / "curves.svg"));
  ExpectOneLine(Millrace({"plot", "-o", folder / "curves.svg"}), {"no metrics file"});
}

}  // namespace
}  // namespace millrace::test
