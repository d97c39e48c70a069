// examples/lstm: a short run of each strategy.
#include <cstdlib>
#include <filesystem>

#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class LstmExample : public testing::Test {
 protected:
  // The example in a folder of its own, whose data are a text that the test makes.
  LstmExample() {
    namespace fs = std::filesystem;
    fs::create_directories(folder_ / "examples");
    fs::create_directories(folder_ / "tools");
    fs::copy("examples/lstm", folder_ / "examples/lstm");
    fs::copy("tools/accuracy.sh", folder_ / "tools/accuracy.sh");
    std::string text;
    for (int i = 0; i < 4000; ++i) text += i % 3 == 0 ? "the cat sat. " : "a dog ran off. ";
    WriteFile(folder_ / "text", text);
    const std::string data = folder_ / "data/lstm";
    const CommandResult made =
        test::Run({"/usr/bin/python3", "examples/lstm/make_data", data, folder_ / "text"});
    EXPECT_EQ(made.status, 0) << made.errors;
    EXPECT_CONTAINS(made.output, "different ones; records: ");
    for (const std::string kind : {"train", "test"}) {
      const CommandResult converted =
          Millrace({"convert_mnist_data", data + "/" + kind + "-images.idx",
                    data + "/" + kind + "-labels.idx", data + "/" + kind + "_lmdb"});
      EXPECT_EQ(converted.status, 0) << converted.errors;
    }
  }
  CommandResult Train(const std::string& strategy, int solvers, int iterations) {
    return test::Run({"/usr/bin/env",
                      "BUILD=" + std::filesystem::absolute(Dirname(Binary())).string(),
                      "STRATEGY=" + strategy, StrCat("SOLVERS=", solvers),
                      StrCat("ITERATIONS=", iterations), folder_ / "examples/lstm/train"});
  }

  TempDir folder_;
};

TEST_F(LstmExample, LearnsWithEveryStrategy) {
  for (const std::string strategy : {"hogwild", "downpour", "easgd", "synchronous"}) {
    const CommandResult result = Train(strategy, 2, 300);
    ASSERT_EQ(result.status, 0) << strategy << ": " << result.output << result.errors;
    const std::vector<std::string> found =
        Matches(result.output, strategy + " *2 solvers: perplexity ([0-9.]+), [0-9]+ s, [0-9]+ s of processors\n");
    ASSERT_EQ(found.size(), 1u) << result.output;
    // The text has 14 characters, and is hard to tell only where a sentence begins.
    EXPECT_LT(std::atof(found[0].c_str()), 2) << strategy;
    EXPECT_GE(std::atof(found[0].c_str()), 1) << strategy;
  }
}

TEST_F(LstmExample, RefusesAnUnknownStrategy) {
  const CommandResult result = Train("none", 1, 1);
  EXPECT_EQ(result.status, 1);
  EXPECT_CONTAINS(result.errors, "STRATEGY=none: expected hogwild, downpour");
}

}  // namespace
}  // namespace millrace::test
