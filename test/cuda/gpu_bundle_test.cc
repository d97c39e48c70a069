// run-checks and run-bench of `make gpu-bundle`, with scripts in place of the programs.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

class GpuBundle : public testing::Test {
 protected:
  GpuBundle() {
    for (const char* folder : {"bin", "lib", "examples/mnist", "data/mnist/mnist_train_lmdb"}) {
      fs::create_directories(folder_ / folder);
    }
    fs::copy("tools/gpu-checks", folder_ / "run-checks");
    fs::copy("tools/gpu-bench", folder_ / "run-bench");
    fs::copy("tools/gpu-bundle.sh", folder_ / "gpu-bundle.sh");
    WriteFile(folder_ / "examples/mnist/lenet_solver.prototxt", "max_iter: 1\n");
    for (const char* name : {"device_test", "exchange_test", "segment_test", "training_test"}) {
      Program(name, "echo \"$0 $1\" >>calls\necho '[  PASSED  ] 3 tests.'");
    }
    Program("millrace", kMillrace);
  }

  void Program(const std::string& name, const std::string& text) {
    WriteFile(folder_ / ("bin/" + name), "#!/bin/sh\n" + text + "\n");
    fs::permissions(folder_ / ("bin/" + name), fs::perms::owner_all);
  }
  CommandResult Script(const std::string& script, const std::vector<std::string>& arguments = {}) {
    std::vector<std::string> command = {"/usr/bin/env", "PATH=/usr/bin:/bin",
                                        "COMPUTE_SANITIZER=", "RESULTS=" + folder_ / "kept",
                                        folder_ / script};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return test::Run(command);
  }
  std::string Calls() { return fs::exists(folder_ / "calls") ? ReadFile(folder_ / "calls") : ""; }
  std::string Report() { return ReadFile(folder_ / "report.txt"); }

  const std::string kMillrace =
      "case $1 in device_query) echo 'GPU 0: Fake';; train) echo 'accuracy = 0.9912';; esac";
  TempDir folder_;
};

TEST_F(GpuBundle, SkipsEveryPartWithTheReasonWithoutAGpu) {
  Program("millrace", "echo 'millrace: this machine has no GPU (none)' >&2; exit 1");
  for (const char* script : {"run-checks", "run-bench"}) {
    const CommandResult result = Script(script);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_CONTAINS(result.output, "skipped: millrace: this machine has no GPU (none)");
    EXPECT_EQ(result.output.find("FAILED"), std::string::npos);
  }
  EXPECT_EQ(Calls(), "");
  EXPECT_CONTAINS(Report(), "racecheck  skipped: millrace: this machine has no GPU (none)");
}

TEST_F(GpuBundle, RunsEachPartOnceUnlessItIsNamed) {
  const CommandResult first = Script("run-checks");
  EXPECT_EQ(first.status, 0) << first.output << first.errors;
  EXPECT_CONTAINS(Report(), "layers     passed in ");
  EXPECT_CONTAINS(Report(), "; 3 tests passed, 0 skipped, 0 failed");
  EXPECT_CONTAINS(Report(), "cifar10    skipped: no data in data/cifar10");
  EXPECT_CONTAINS(Report(), "accuracy 0.9912, expected at least 0.989");
  const std::string calls = Calls();
  EXPECT_CONTAINS(calls, "bin/training_test --gtest_filter=*GpuLayers*OnCuda*");
  EXPECT_EQ(Script("run-checks").status, 0);
  EXPECT_EQ(Calls(), calls);
  EXPECT_EQ(Script("run-checks", {"layers"}).status, 0);
  EXPECT_EQ(Calls(), calls + "bin/training_test --gtest_filter=*GpuLayers*OnCuda*\n");
}

TEST_F(GpuBundle, FailsIfATestFailsOrFindsNoGpuOrRunsNot) {
  Program("device_test", "echo '[  FAILED  ] 2 tests, listed below:'; exit 1");
  Program("segment_test", "echo 'Skipped: no CUDA device: none'; echo '[  PASSED  ] 3 tests.'");
  Program("training_test", "echo '[  PASSED  ] 0 tests.'");
  Program("millrace", "case $1 in train) echo 'accuracy = 0.95';; esac");
  EXPECT_EQ(Script("run-checks").status, 1);
  EXPECT_CONTAINS(Report(), "device     FAILED with 1");
  EXPECT_CONTAINS(Report(), "0 tests passed, 0 skipped, 2 failed");
  for (const char* part :
       {"segments", "layers", "gradients", "updates", "links", "trainings", "lenet"}) {
    EXPECT_CONTAINS(Report(), StrCat("\n", part, std::string(11 - std::string(part).size(), ' '),
                                     "FAILED with 1"));
  }
  // A part that passes later is no failure any more.
  Program("device_test", "echo '[  PASSED  ] 5 tests.'");
  Script("run-checks");
  EXPECT_CONTAINS(Report(), "device     passed in ");
}

TEST_F(GpuBundle, EndsAPartAtItsLimitAndBeginsNoneBeyondItsBudget) {
  Program("device_test", "sleep 100");
  const CommandResult late =
      test::Run({"/usr/bin/env", "LIMIT=1", folder_ / "run-checks", "device", "exchange"});
  EXPECT_EQ(late.status, 1);
  EXPECT_CONTAINS(Report(), "device     FAILED: more than 1 s");
  EXPECT_CONTAINS(Report(), "exchange   passed in ");
  EXPECT_CONTAINS(Report(), "layers     not run");
  EXPECT_EQ(test::Run({"/usr/bin/env", "BUDGET=0", folder_ / "run-checks", "layers"}).status, 1);
  EXPECT_CONTAINS(Report(), "layers     not begun: the budget of 0 s is spent");
}

TEST_F(GpuBundle, RefusesUnknownParts) {
  const CommandResult result = Script("run-checks", {"layer"});
  EXPECT_EQ(result.status, 1);
  EXPECT_CONTAINS(result.errors, "there is no part \"layer\": expected device exchange");
  EXPECT_CONTAINS(Script("run-bench", {"x"}).errors, "there is no part \"x\"");
}

TEST_F(GpuBundle, UnpacksProgramsOnce) {
  fs::remove(folder_ / "bin/device_test");
  const CommandResult packed =
      test::Run({"/bin/sh", "-c",
                 "printf '#!/bin/sh\\necho \"[  PASSED  ] 7 tests.\"\\n' | xz >" +
                     (folder_ / "bin/device_test.xz")});
  ASSERT_EQ(packed.status, 0) << packed.errors;
  EXPECT_EQ(Script("run-checks", {"device"}).status, 0);
  EXPECT_CONTAINS(Report(), "; 7 tests passed");
  EXPECT_TRUE(fs::exists(folder_ / "bin/device_test"));
}

}  // namespace
}  // namespace millrace::test
