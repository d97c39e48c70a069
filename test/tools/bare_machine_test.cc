// The first steps of make: on a machine that has only git, make and what every Debian has, nothing
// may need a package before the packages are installed; in an empty build folder, nothing may need
// a file before it is made.
#include <filesystem>
#include <map>
#include <set>

#include "base/text/parse.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

// Stand-ins for the programs that install packages write what they were asked for to asked().
class BareMachine : public testing::Test {
 protected:
  void SetUp() override {
    if (test::Run({"/bin/sh", "-c", "command -v dpkg"}).status != 0)
      GTEST_SKIP() << "this is no Debian";
    std::filesystem::create_directory(bin_);
    const CommandResult linked = test::Run(
        {"/bin/bash", "-c",
         "packages=$(dpkg-query -W -f='${Essential} ${Package}\\n' | sed -n 's/^yes //p') && "
         "dpkg -L $packages mawk make git | grep -E '^(/usr)?/s?bin/[^/]+$' | sort -u | "
         "xargs ln -sf -t " +
             bin_ + " && ln -sf mawk " + bin_ + "/awk"});
    ASSERT_EQ(linked.status, 0) << linked.errors;
    PutProgram("dpkg-query", "exit 1");  // knows no package
    PutProgram("apt-get", "echo \"$@\" >>" + asked_ + "; [ $1 = update ] || exit 100");
    BeUser(0);
  }

  void PutProgram(const std::string& name, const std::string& script) {
    std::filesystem::remove(bin_ + "/" + name);
    WriteFile(bin_ + "/" + name, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(bin_ + "/" + name, std::filesystem::perms::owner_all);
  }
  void BeUser(int id) { PutProgram("id", StrCat("echo ", id)); }

  CommandResult Make(const std::vector<std::string>& goals) {
    std::vector<std::string> command = {"/usr/bin/env", "-i", "PATH=" + bin_, "make",
                                        "BUILD=" + (folder_ / "build")};
    command.insert(command.end(), goals.begin(), goals.end());
    return test::Run(command);
  }
  std::string asked() const { return FileExists(asked_) ? ReadFile(asked_) : ""; }

  const TempDir folder_;
  const std::string bin_ = folder_ / "bin", asked_ = folder_ / "asked";
};

class Goals : public BareMachine, public testing::WithParamInterface<const char*> {};

TEST_P(Goals, InstallPackagesBeforeAnythingElse) {
  const CommandResult result = Make({GetParam()});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.output.find("installing: g++ make "), 0u) << result.output;
  // The only line is that of the installation, which has failed.
  EXPECT_TRUE(
      MatchesWhole(result.errors, R"(make: \*\*\* \[make/commands\.mk:\d+: deps\] Error 100\n)"))
      << result.errors;
  EXPECT_TRUE(MatchesWhole(asked(), "update -qq\ninstall -y [^\n]* g\\+\\+ make [^\n]*\n"))
      << asked();
}

TEST_P(Goals, InstallThemWithSudoAsAnotherUser) {
  BeUser(1000);
  PutProgram("sudo", "echo sudo >>" + asked_ + "; exec \"$@\"");
  EXPECT_EQ(Make({GetParam()}).status, 2);
  EXPECT_TRUE(
      MatchesWhole(asked(), "sudo\nupdate -qq\nsudo\ninstall -y [^\n]* g\\+\\+ make [^\n]*\n"))
      << asked();
}

TEST_P(Goals, SayWhatToInstallWhereThereIsNoSudo) {
  BeUser(1000);
  const CommandResult result = Make({GetParam()});
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(MatchesWhole(result.errors,
                           "install-deps: goes on without libonnx-dev [^\n]*\n"
                           "install-deps: packages are missing, and there is no sudo; run as root: "
                           "apt-get install g\\+\\+ make [^\n]*\n"
                           "make: [^\n]*deps\\] Error 1\n"))
      << result.errors;
  EXPECT_EQ(asked(), "");
}

INSTANTIATE_TEST_SUITE_P(ThatAUserStartsWith, Goals, testing::Values("quickstart", "test", "deps"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(BareMachine, MakeSaysHowToGetACompiler) {
  const CommandResult result = Make({});
  EXPECT_EQ(result.status, 2);
  EXPECT_CONTAINS(result.errors, "*** g++ does not run; make deps installs what a build needs.");
}

// The object of a library that not all programs load is no dependency of what else a build makes.
TEST(EmptyBuildFolder, GetsThePrecompiledHeaderBeforeAnObjectThatUsesIt) {
  const TempDir folder;
  const std::string object = folder / "obj/src/data/opencv/decode.o";
  const CommandResult result =
      test::Run({"/usr/bin/env", "make", "-n", "BUILD=" + folder.path(), object});
  ASSERT_EQ(result.status, 0) << result.errors;
  const size_t header = result.output.find("pch/src.h.gch");
  const size_t user = result.output.find("-include " + folder.path() + "/pch/src.h");
  ASSERT_NE(user, std::string::npos) << result.output;
  EXPECT_LT(header, user) << result.output;
}

// Packages that `make quickstart` and `make test` install, as far as they are on this machine, and
// all that these depend on.
std::set<std::string> InstalledPackages() {
  std::map<std::string, std::string> depends;
  for (const std::string& line :
       Split(test::Run({"/usr/bin/dpkg-query", "-W", "-f=${Package}|${Pre-Depends},${Depends}\\n"})
                 .output,
             '\n')) {
    depends[line.substr(0, line.find('|'))] = line.substr(line.find('|') + 1);
  }
  const std::string script = ReadFile("tools/install-deps");
  std::string left;
  for (const std::string& list : Matches(script, "\n(?:packages|optional)=\\(([^)]*)\\)"))
    left += list;
  std::set<std::string> found;
  for (std::vector<std::string> next = Matches(left, "([a-z0-9+.-]+)"); !next.empty();) {
    const std::string name = next.back();
    next.pop_back();
    const auto each = depends.find(name);
    if (each == depends.end() || !found.insert(name).second) continue;
    for (const std::string& other : Matches(each->second, "(?:^|[,|]) *([a-z0-9][a-z0-9+.-]+)")) {
      next.push_back(other);
    }
  }
  return found;
}

// What a machine has that others lack hides a package that the build needs.
TEST(InstallDeps, InstallsThePackageOfEachHeaderThatIsIncluded) {
  if (test::Run({"/bin/sh", "-c", "command -v dpkg"}).status != 0)
    GTEST_SKIP() << "this is no Debian";
  const CommandResult included =
      test::Run({"/bin/bash", "-c",
                 "for header in $(grep -rhoP '^#include <\\K[^>]+' include python/src src test "
                 "tools | sort -u); do "
                 "ls -d /usr/include/$header /usr/include/*-linux-gnu/$header; done 2>/dev/null | "
                 "xargs dpkg -S 2>/dev/null | sed 's/:[a-z0-9]*: / /; s/: / /'"});
  const std::set<std::string> packages = InstalledPackages();
  EXPECT_TRUE(packages.contains("libc6-dev"));
  int headers = 0;
  for (const std::string& line : Split(included.output, '\n')) {
    if (line.empty()) continue;
    ++headers;
    EXPECT_TRUE(packages.contains(line.substr(0, line.find(' ')))) << line;
  }
  EXPECT_GT(headers, 50);
}

}  // namespace
}  // namespace millrace::test
