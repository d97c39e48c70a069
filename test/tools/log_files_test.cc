// Where the log goes: the flags of glog, as its users know them.
#include <filesystem>

#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class LogFiles : public testing::Test {
 protected:
  LogFiles() { std::filesystem::create_directory(work_ / "logs"); }

  CommandResult Train(std::vector<std::string> flags, std::vector<std::string> environment = {}) {
    std::vector<std::string> command = {"/usr/bin/env"};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(command.end(), {Binary(), "train", "--solver=" + solver_});
    command.insert(command.end(), flags.begin(), flags.end());
    const CommandResult result = test::Run(command);
    EXPECT_EQ(result.status, 0) << result.errors;
    return result;
  }
  std::string Folder() const { return work_ / "logs"; }
  // Content of the log file of a severity in `folder`, by the name of the link to the newest one.
  static std::string File(const std::string& folder, const std::string& severity = "INFO") {
    const std::string path = folder + "/millrace." + severity;
    return std::filesystem::exists(path) ? ReadFile(path) : "";
  }
  static std::string WithoutHeader(const std::string& text) {
    const std::string end = "threadid file:line] msg\n";
    return text.substr(text.find(end) + end.size());
  }

  Workspace work_;
  const std::string solver_ = work_.Write("run", Workspace::Solver(2));
};

TEST_F(LogFiles, WithoutFlagsThereAreNone) {
  const CommandResult result = Train({}, {"TMPDIR=" + Folder()});
  EXPECT_CONTAINS(result.errors, "Optimization Done.");
  EXPECT_TRUE(std::filesystem::is_empty(Folder()));
}

TEST_F(LogFiles, LogDirWritesThereAndToStderr) {
  const CommandResult result = Train({"-log_dir", Folder()});
  const std::string file = File(Folder());
  EXPECT_TRUE(MatchesWhole(file.substr(0, file.find('\n')),
                           R"(Log file created at: \d{4}/\d{2}/\d{2} \d{2}:\d{2}:\d{2})"))
      << file;
  EXPECT_CONTAINS(file, "[IWEF]mmdd hh:mm:ss.uuuuuu threadid file:line] msg\n");
  EXPECT_CONTAINS(result.errors, "Optimization Done.");
  EXPECT_EQ(WithoutHeader(file), result.errors);
}

TEST_F(LogFiles, TheEnvironmentSelectsTheFolderToo) {
  const CommandResult result = Train({}, {"GLOG_log_dir=" + Folder()});
  EXPECT_CONTAINS(File(Folder()), "Optimization Done.");
  EXPECT_CONTAINS(result.errors, "Optimization Done.");
}

TEST_F(LogFiles, LogtostderrWritesNoFiles) {
  const CommandResult result = Train({"--log_dir=" + Folder(), "--logtostderr"});
  EXPECT_TRUE(std::filesystem::is_empty(Folder()));
  EXPECT_CONTAINS(result.errors, "Optimization Done.");
}

TEST_F(LogFiles, NotLogtostderrWritesFilesOnly) {
  for (const char* flag : {"--nologtostderr", "--logtostderr=0", "--alsologtostderr=false"}) {
    const CommandResult result = Train({"-log-dir=" + Folder(), flag});
    EXPECT_EQ(result.errors, "") << flag;
    EXPECT_CONTAINS(File(Folder()), "Optimization Done.");
  }
}

TEST_F(LogFiles, AlsologtostderrAloneWritesToTheTemporaryFolder) {
  const CommandResult result = Train({"-alsologtostderr"}, {"TMPDIR=" + Folder()});
  EXPECT_CONTAINS(File(Folder()), "Optimization Done.");
  EXPECT_CONTAINS(result.errors, "Optimization Done.");
}

TEST_F(LogFiles, MinloglevelLeavesOutTheLevelsBelow) {
  const CommandResult all = Train({"--iterations=3"}),
                      warnings = Train({"--iterations=3", "-minloglevel", "1"});
  EXPECT_CONTAINS(all.errors, "\nI");
  EXPECT_EQ(
      Matches(warnings.errors, R"((W\d{4} .*train ignores this flag, as Caffe does)\n)").size(),
      1u);
  EXPECT_EQ(Matches(warnings.errors, R"((^|\n)I\d{4} )").size(), 0u) << warnings.errors;
  EXPECT_EQ(Train({"--iterations=3", "-minloglevel=2"}).errors, "");
}

TEST_F(LogFiles, StderrthresholdSelectsWhatReachesStderrBesidesTheFiles) {
  const CommandResult result = Train(
      {"--log_dir=" + Folder(), "--alsologtostderr=0", "--stderrthreshold=1", "--iterations=3"});
  EXPECT_TRUE(MatchesWhole(result.errors, R"(W\d{4} .*train ignores this flag, as Caffe does\n)"))
      << result.errors;
  EXPECT_CONTAINS(File(Folder(), "WARNING"), "train ignores this flag");
}

TEST_F(LogFiles, TheYearIsInTheLinesOnRequest) {
  const std::string with_year = R"((I\d{8} \d{2}:\d{2}:\d{2}\.\d{6} .*Optimization Done\.)\n)";
  EXPECT_EQ(Matches(Train({}).errors, with_year).size(), 0u);
  EXPECT_EQ(Matches(Train({"--log_year_in_prefix"}).errors, with_year).size(), 1u);
  EXPECT_EQ(Matches(Train({}, {"GLOG_log_year_in_prefix=1"}).errors, with_year).size(), 1u);
}

TEST_F(LogFiles, AFolderThatCannotBeWrittenToIsAnError) {
  const std::string solver = "--solver=" + solver_;
  ExpectOneLine(Millrace({"train", solver, "--log_dir=" + work_ / "none"}),
                {"--log_dir=", "No such file or directory", "expected a folder"});
  ExpectOneLine(Millrace({"train", solver, "--log_dir=" + solver_}),
                {"--log_dir=", "Not a directory"});
  EXPECT_TRUE(work_.FilesWith("run_iter").empty());
}

}  // namespace
}  // namespace millrace::test
