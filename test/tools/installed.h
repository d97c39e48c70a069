// A copy of Millrace, installed as a user installs it.
#ifndef MILLRACE_TEST_TOOLS_INSTALLED_H_
#define MILLRACE_TEST_TOOLS_INSTALLED_H_

#include <filesystem>
#include <string>

#include "millrace/version.h"
#include "test/tools/tools_support.h"

namespace millrace::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

class Installed : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "programs built without a sanitizer cannot use this library";
    const CommandResult result =
        test::Run({"/usr/bin/env", "PREFIX=" + prefix_, "packaging/install", Dirname(Binary()), Version()});
    ASSERT_EQ(result.status, 0) << result.errors;
  }
  // Runs `command` in the shell, with the installed library in the paths.
  CommandResult Shell(const std::string& command) const {
    return test::Run({"/usr/bin/env", "PKG_CONFIG_PATH=" + prefix_ + "/lib/pkgconfig",
                      "LD_LIBRARY_PATH=" + prefix_ + "/lib", "bash", "-c", command},
                     300);
  }
  // A copy of examples/NAME outside of the tree.
  std::string Copied(const std::string& name) const {
    const std::string to = folder_ / name;
    std::filesystem::copy("examples/" + name, to, std::filesystem::copy_options::recursive);
    return to;
  }

  TempDir folder_;
  const std::string prefix_ = folder_ / "prefix";
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TOOLS_INSTALLED_H_
