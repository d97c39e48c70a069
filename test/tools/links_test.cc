// tools/check-links reports links to missing files, headings and functions.
#include <filesystem>

#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

constexpr const char* kLinkedSource = R"source(// Comment of OnlyInAComment(int x).
class Worker {
 public:
  void Poll(int64_t now);
  bool idle() const { return true; }
};

namespace {

int64_t TimeoutOf(const Chunk& chunk) { return chunk.timeout; }

}  // namespace

void Worker::Poll(int64_t now) {
  Resend(now);
  const bool is_late = IsLate(now);
  return Push(now);
}

const char* Text() { return "void InAString()"; }
)source";

// The result for a page with these links.
CommandResult CheckLinks(const std::vector<std::string>& links) {
  TempDir folder;
  std::filesystem::create_directories(folder / "docs");
  WriteFile(folder / "worker.cc", kLinkedSource);
  WriteFile(folder / "tool.py", "def work():\n    pass\n");
  WriteFile(folder / "docs/other.md", "# Other\n\n## Two words\n");
  std::string page = "# Page\n\n";
  for (const std::string& link : links) page += "See [it](" + link + ").\n";
  WriteFile(folder / "docs/page.md", page);
  return test::Run({"tools/check-links", "--root=" + folder.path()});
}

TEST(Links, ThatLeadSomewhereAreAccepted) {
  const CommandResult result = CheckLinks(
      {"other.md", "other.md#two-words", "#page", "../worker.cc", "../worker.cc#Worker",
       "../worker.cc#Worker::Poll", "../worker.cc#Worker::idle", "../worker.cc#TimeoutOf",
       "../worker.cc#Text", "../tool.py#work", "https://example.org/nowhere"});
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST(Links, ToMissingFilesAndHeadingsAreReported) {
  const CommandResult result = CheckLinks({"missing.md", "other.md#three-words"});
  EXPECT_EQ(result.status, 1);
  EXPECT_CONTAINS(result.errors, "docs/page.md: (missing.md): docs/missing.md does not exist");
  EXPECT_CONTAINS(result.errors, "docs/other.md has no heading #three-words");
}

TEST(Links, ToFunctionsThatAFileOnlyCallsOrMentionsAreReported) {
  const std::vector<std::string> names = {
      "Resend", "IsLate",         "Push",      "Worker::Push", "Worker::Resend",
      "Nobody", "OnlyInAComment", "InAString", "Master::Poll", "L7"};
  std::vector<std::string> links = {"../tool.py#play", "../worker.cc#two-words"};
  for (const std::string& name : names) links.push_back("../worker.cc#" + name);
  const CommandResult result = CheckLinks(links);
  EXPECT_EQ(result.status, 1);
  for (const std::string& name : names) {
    EXPECT_CONTAINS(result.errors, "worker.cc has no function or type " + name + "\n");
  }
  EXPECT_CONTAINS(result.errors, "tool.py has no function or type play\n");
  EXPECT_CONTAINS(result.errors, "worker.cc: expected the name of a function, not #two-words\n");
}

}  // namespace
}  // namespace millrace::test
