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
  CommandResult Train(const std::string& strategy, int solvers, int iterations,
                      const std::string& other = "MODEL=char") {
    return test::Run(
        {"/usr/bin/env", "BUILD=" + std::filesystem::absolute(Dirname(Binary())).string(),
         "STRATEGY=" + strategy, StrCat("SOLVERS=", solvers), StrCat("ITERATIONS=", iterations),
         "REVIEWS=" + (folder_ / "reviews"), other, folder_ / "examples/lstm/train"});
  }

  TempDir folder_;
};

TEST_F(LstmExample, LearnsWithEveryStrategy) {
  for (const std::string strategy : {"hogwild", "downpour", "easgd", "synchronous"}) {
    const CommandResult result = Train(strategy, 2, 300);
    ASSERT_EQ(result.status, 0) << strategy << ": " << result.output << result.errors;
    const std::vector<std::string> found =
        Matches(result.output,
                strategy + " *2 solvers: perplexity ([0-9.]+), [0-9]+ s, [0-9]+ s of processors\n");
    ASSERT_EQ(found.size(), 1u) << result.output;
    // The text has 14 characters, and is hard to tell only where a sentence begins.
    EXPECT_LT(std::atof(found[0].c_str()), 2) << strategy;
    EXPECT_GE(std::atof(found[0].c_str()), 1) << strategy;
  }
}

// What comes first decides: the order of words matters, not only which there are.
TEST_F(LstmExample, TellsGoodReviewsFromBadOnes) {
  std::string lines;
  for (int i = 0; i < 600; ++i) {
    const bool good = i / 7 % 2 == 0;
    const std::string word = StrCat(" word", i % 11);
    lines += StrCat(i, "\t", good ? 1.5 : -2, "\t", good ? "Fine" : "Dull", word, ", not ",
                    good ? "dull" : "fine", word, word, "!\n");
  }
  WriteFile(folder_ / "reviews", lines);
  const CommandResult result = Train("hogwild", 2, 200, "MODEL=sentiment");
  ASSERT_EQ(result.status, 0) << result.output << result.errors;
  const std::vector<std::string> found = Matches(
      result.output, "hogwild *2 solvers: accuracy ([0-9.]+), [0-9]+ s, [0-9]+ s of processors\n");
  ASSERT_EQ(found.size(), 1u) << result.output;
  EXPECT_GE(std::atof(found[0].c_str()), 0.9);

  WriteFile(folder_ / "reviews", "1\tgood\tA sentence\n");
  const CommandResult wrong = test::Run({"/usr/bin/python3", folder_ / "examples/lstm/make_reviews",
                                         folder_ / "other", folder_ / "reviews"});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_EQ(wrong.errors,
            "make_reviews: line 1 is '1\\tgood\\tA sentence': expected name, rating and "
            "sentence, with tabs between\n");
}

TEST_F(LstmExample, RefusesAnUnknownStrategy) {
  const CommandResult result = Train("none", 1, 1);
  EXPECT_EQ(result.status, 1);
  EXPECT_CONTAINS(result.errors, "STRATEGY=none: expected hogwild, downpour");
  const CommandResult model = Train("hogwild", 1, 1, "MODEL=none");
  EXPECT_EQ(model.status, 1);
  EXPECT_CONTAINS(model.errors, "MODEL=none: expected char or sentiment");
}

}  // namespace
}  // namespace millrace::test
