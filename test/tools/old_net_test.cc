// Runs with nets that Caffe accepts: of earlier formats, with debug_info, with missing layer types.
#include <algorithm>

#include "proto/parse.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

// The net of `work` in the format before August 2014.
std::string InV1(const Workspace& work) {
  return StrCat(R"(name: "small"
layers { name: "images" type: DATA top: "data" top: "label" include { phase: TRAIN }
         data_param { source: ")",
                work / "train_lmdb", R"(" batch_size: 8 backend: LMDB scale: 0.00390625 } }
layers { name: "hidden" type: INNER_PRODUCT bottom: "data" top: "hidden" blobs_lr: 1 blobs_lr: 2
         inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layers { name: "relu" type: RELU bottom: "hidden" top: "hidden" }
layers { name: "scores" type: INNER_PRODUCT bottom: "hidden" top: "scores"
         inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "scores" bottom: "label" top: "loss" }
)");
}

std::vector<std::string> LossesOf(const CommandResult& result) {
  return Matches(result.errors, R"(, loss = (\S+)\n)");
}

TEST(OldNet, TrainsAsTheSameNetInTodaysFormat) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(20);
  solver.set_display(5);
  const std::string path = work.Write("run", solver);
  work.WriteNet(InV1(work));
  const CommandResult old = Millrace({"train", "--solver=" + path});
  ASSERT_EQ(old.status, 0) << old.errors;
  EXPECT_CONTAINS(old.errors, "net.prototxt: read V1 layers, a form of earlier versions");
  EXPECT_CONTAINS(old.errors, "net.prototxt: read transformation fields of data layers");
  WriteFile(work / "old", InV1(work));
  ASSERT_EQ(Millrace({"upgrade_net_proto_text", work / "old", work / "net.prototxt"}).status, 0);
  const CommandResult today = Millrace({"train", "--solver=" + path});
  EXPECT_EQ(today.errors.find("earlier versions"), std::string::npos);
  EXPECT_EQ(LossesOf(old).size(), 5u);  // the last is that of the final weights
  EXPECT_EQ(LossesOf(old), LossesOf(today));
}

TEST(OldNet, MissingTypesOfAllNetsAreToldBeforeDataIsOpened) {
  Workspace work;
  work.WriteNet(
      "layer { name: 'd' type: 'Data' top: 'd' data_param { source: 'nowhere' batch_size: 1 } }\n"
      "layer { name: 'a' type: 'Foo' bottom: 'd' top: 'a' include { phase: TEST } }\n"
      "layer { name: 'b' type: 'Bar' bottom: 'd' top: 'b' include { phase: TEST } }\n");
  ExpectOneLine(Millrace({"train", "--solver=" + work.Write("run", Workspace::Tested(
                                                                       Workspace::Solver(2), 2))}),
                {"net.prototxt:2: layer 'a': type: there is no layer type 'Foo' on cpu; also ",
                 "net.prototxt:3: layer 'b': type: there is no layer type 'Bar' on cpu; known: "});
}

TEST(OldNet, ParametersOfAnotherTypeAreLoggedOnceWhateverTheNumberOfSolvers) {
  Workspace work;
  std::string text = work.Net().Text();
  const std::string relu = "type: 'ReLU'";
  work.WriteNet(text.insert(text.find(relu), "pooling_param { kernel_size: 2 } "));
  const CommandResult result =
      Millrace({"train", "--solver=" + work.Write("run", Workspace::Solver(4)), "--cpu=2"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(Matches(result.errors, R"((net.prototxt:\d+: layer 'relu': pooling_param: ignored, ))")
                .size(),
            1u);
}

TEST(NetState, StagesOfTheNetFileCountBesideThoseOfTheFlags) {
  Workspace work;
  SmallNet net = work.Net();
  net.more_layers =
      "layer { name: 'own' type: 'ReLU' bottom: 'scores' top: 'own' include { stage: 'a' } }\n"
      "layer { name: 'both' type: 'ReLU' bottom: 'scores' top: 'both' "
      "include { stage: 'a' stage: 'b' } }\n"
      "state { phase: TEST stage: 'a' }\n";
  work.WriteNet(net);
  const auto has = [&](const std::string& layer, const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"time", "--model=" + work / "net.prototxt",
                                          "--iterations=1"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Millrace(arguments).output.find("\n" + layer + " ") != std::string::npos;
  };
  EXPECT_TRUE(has("own", {}));
  EXPECT_FALSE(has("both", {}));
  EXPECT_TRUE(has("both", {"--stage=b"}));
  EXPECT_FALSE(has("accuracy", {}));  // the phase is that of the command
}

TEST(DebugInfo, IsLoggedInTheIterationsThatAreDisplayedAndInTests) {
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(20), 20);
  solver.set_display(10);
  solver.set_debug_info(true);
  const CommandResult result = Millrace({"train", "--solver=" + work.Write("run", solver)});
  ASSERT_EQ(result.status, 0) << result.errors;
  const auto count = [&](const std::string& pattern) {
    return Matches(result.errors, pattern, 0).size();
  };
  const size_t passes = 2;  // of iterations 0 and 10
  EXPECT_EQ(count(R"(\]     \[Backward\] Layer hidden, param blob 1 diff: \S+\n)"), passes);
  EXPECT_EQ(count(R"(\]     \[Backward\] All net params \(data, diff\): L1 norm = \(\S+, \S+\); )"),
            passes);
  // Two tests, at the beginning and at the end.
  const size_t batches = 2 * solver.test_iter(0);
  EXPECT_EQ(count(R"(\]     \[Forward\] Layer accuracy, top blob accuracy data: \S+\n)"), batches);
  EXPECT_EQ(count(R"(\]     \[Forward\] Layer hidden, param blob 0 data: \S+\n)"),
            passes + batches);
}

}  // namespace
}  // namespace millrace::test
