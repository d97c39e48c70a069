// A copy of Millrace, installed as a user installs it.
#ifndef MILLRACE_TEST_TOOLS_INSTALLED_H_
#define MILLRACE_TEST_TOOLS_INSTALLED_H_

#include <filesystem>
#include <string>
#include <vector>

#include "millrace/version.h"
#include "test/support/sanitized.h"
#include "test/tools/tools_support.h"

namespace millrace::test {

class Installed : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "programs built without a sanitizer cannot use this library";
    const CommandResult result = InstallWith({"PREFIX=" + prefix_});
    ASSERT_EQ(result.status, 0) << result.errors;
  }
  // `settings`: variables of `make install`.
  static CommandResult InstallWith(const std::vector<std::string>& settings) {
    std::vector<std::string> command = {"/usr/bin/env"};
    command.insert(command.end(), settings.begin(), settings.end());
    command.insert(command.end(), {"packaging/install", Dirname(Binary()), Version()});
    return test::Run(command);
  }
  // Runs `command` in the shell, with the library in `libdir` in the paths.
  static CommandResult ShellWith(const std::string& libdir, const std::string& command) {
    return test::Run({"/usr/bin/env", "PKG_CONFIG_PATH=" + libdir + "/pkgconfig",
                      "LD_LIBRARY_PATH=" + libdir, "bash", "-c", command},
                     300);
  }
  CommandResult Shell(const std::string& command) const {
    return ShellWith(prefix_ + "/lib", command);
  }
  // A copy of examples/NAME outside of the tree.
  std::string Copied(const std::string& name) const {
    const std::string to = folder_ / name;
    std::filesystem::copy("examples/" + name, to, std::filesystem::copy_options::recursive);
    return to;
  }
  // Builds examples/extend/NAME.cc with the installed library; returns the path of the plugin.
  std::string Plugin(const std::string& name) const {
    const std::string folder =
        std::filesystem::exists(folder_ / "extend") ? folder_ / "extend" : Copied("extend");
    const CommandResult built = Shell("make -C " + folder + " " + name + ".so");
    EXPECT_EQ(built.status, 0) << built.errors;
    return folder + "/" + name + ".so";
  }
  std::vector<std::string> InstalledCommand(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), prefix_ + "/bin/millrace");
    return arguments;
  }
  CommandResult InstalledMillrace(const std::vector<std::string>& arguments) const {
    return test::Run(InstalledCommand(arguments));
  }

  TempDir folder_;
  const std::string prefix_ = folder_ / "prefix";
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TOOLS_INSTALLED_H_
