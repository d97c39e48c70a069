// docs/images/architecture.svg shows the table of tools/check-layers.
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

constexpr const char* kFigure = "docs/images/architecture.svg";

CommandResult Check(const std::string& figure) {
  return test::Run({"tools/draw-architecture", "--check", "--figure=" + figure});
}

TEST(Architecture, ShowsTheFoldersAndDependenciesOfTheTable) {
  const CommandResult result = Check(kFigure);
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST(Architecture, DifferencesFromTheTableAreReported) {
  TempDir folder;
  const std::string path = folder / "architecture.svg";
  std::string figure = ReadFile(kFigure);
  const std::string arrow = "<title>nn&#45;&gt;weights</title>";
  const size_t at = figure.find(arrow);
  ASSERT_NE(at, std::string::npos);
  WriteFile(path, figure.replace(at, arrow.size(), "<title>nn&#45;&gt;segment</title>"));
  const CommandResult result = Check(path);
  EXPECT_EQ(result.status, 1);
  EXPECT_CONTAINS(result.errors, "the arrow nn -> weights is missing");
  EXPECT_CONTAINS(result.errors, "the arrow nn -> segment is not in the table");
}

TEST(Architecture, IsDrawnFromTheTable) {
  if (test::Run({"/bin/sh", "-c", "command -v dot"}).status != 0) {
    GTEST_SKIP() << "dot is not installed (Debian package graphviz)";
  }
  TempDir folder;
  const std::string path = folder / "architecture.svg";
  const CommandResult drawn = test::Run({"tools/draw-architecture", "--figure=" + path});
  ASSERT_EQ(drawn.status, 0) << drawn.errors;
  const CommandResult result = Check(path);
  EXPECT_EQ(result.status, 0) << result.errors;
}

}  // namespace
}  // namespace millrace::test
