// The program's tools around models: draw_net, snapshot_info, extract_features, convert.
#include <cstdlib>

#include "data/database.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

constexpr char kNet[] = R"(
  name: 'tiny'
  layer { name: 'data' type: 'DummyData' top: 'x' top: 'label'
          dummy_data_param { data_filler { type: 'gaussian' } data_filler {}
                             shape { dim: 4 dim: 3 } shape { dim: 4 } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip'
          inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
  layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' include { phase: TEST } }
  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' })";

// A net, and its weights and state after 3 iterations.
class ModelTools : public testing::Test {
 protected:
  ModelTools() {
    WriteFile(net_, kNet);
    WriteFile(folder_ / "solver",
              StrCat("net: '", net_,
                     "' base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 max_iter: 3 "
                     "snapshot_prefix: '",
                     folder_ / "s", "' random_seed: 5 solver_mode: CPU"));
    const CommandResult trained = Millrace({"train", "--solver=" + folder_ / "solver"});
    EXPECT_EQ(trained.status, 0) << trained.errors;
  }
  std::string Flag(const char* name, const std::string& value) {
    return StrCat("--", name, "=", value);
  }

  TempDir folder_;
  const std::string net_ = folder_ / "net.prototxt";
  const std::string weights_ = folder_ / "s_iter_3.caffemodel";
  const std::string state_ = folder_ / "s_iter_3.solverstate";
};

TEST_F(ModelTools, DrawNetWritesTextAndPictures) {
  const CommandResult text =
      Millrace({"draw_net", Flag("model", net_), Flag("output", folder_ / "net.dot")});
  EXPECT_EQ(text.status, 0) << text.errors;
  const std::string dot = ReadFile(folder_ / "net.dot");
  EXPECT_CONTAINS(dot, "digraph net {");
  EXPECT_CONTAINS(dot, "8 weights");
  EXPECT_EQ(dot.find("Softmax<"), std::string::npos) << "of the other phase";
  if (test::Run({"/bin/sh", "-c", "command -v dot"}).status != 0) {
    GTEST_SKIP() << "dot is not installed (Debian package graphviz)";
  }
  // Caffe's form.
  const CommandResult svg = Millrace({"draw_net", "--phase=TEST", net_, folder_ / "net.svg"});
  EXPECT_EQ(svg.status, 0) << svg.errors;
  EXPECT_CONTAINS(svg.errors, "Drew " + folder_ / "net.svg");
  EXPECT_CONTAINS(ReadFile(folder_ / "net.svg"), ">prob<");
  EXPECT_EQ(Millrace({"draw_net", net_, folder_ / "net.png", "--rankdir=LR"}).status, 0);
  EXPECT_EQ(ReadFile(folder_ / "net.png").substr(1, 3), "PNG");
}

TEST_F(ModelTools, DrawNetDrawsNetsWhoseDataIsElsewhere) {
  WriteFile(net_,
            "layer { name: 'data' type: 'Data' top: 'x' data_param { source: '/no/such/db'\n"
            "  batch_size: 2 backend: LMDB } }\n"
            "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'\n"
            "  inner_product_param { num_output: 7 } }");
  const CommandResult result = Millrace({"draw_net", net_, folder_ / "net.dot"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "/no/such/db");
  EXPECT_CONTAINS(result.errors, "drawing without shapes");
  EXPECT_CONTAINS(ReadFile(folder_ / "net.dot"), "7 outputs");
}

TEST_F(ModelTools, DrawNetNamesThePackageWhereDotIsMissing) {
  const std::string old_path = getenv("PATH");
  setenv("PATH", folder_.path().c_str(), 1);
  const CommandResult result = Millrace({"draw_net", net_, folder_ / "net.svg"});
  setenv("PATH", old_path.c_str(), 1);
  ExpectOneLine(result, {"millrace: dot", "not installed", "graphviz"});
  EXPECT_FALSE(FileExists(folder_ / "net.svg"));
  ExpectOneLine(Millrace({"draw_net", net_, folder_ / "net.gif"}), {"net.gif", ".svg"});
  ExpectOneLine(Millrace({"draw_net", net_, folder_ / "net.svg", "--rankdir=XY"}),
                {"--rankdir=XY"});
}

TEST_F(ModelTools, SnapshotInfoTellsOfFilesAndRefusesOthers) {
  const CommandResult text = Millrace({"snapshot_info", weights_, state_});
  EXPECT_EQ(text.status, 0) << text.errors;
  EXPECT_CONTAINS(text.output, "caffemodel of 'tiny', 8 values");
  EXPECT_CONTAINS(text.output, "ip[0]  InnerProduct  2 \u00d7 3");
  EXPECT_CONTAINS(text.output, "iteration 3, step 0, weights in " + weights_);
  EXPECT_CONTAINS(text.output, "solver 0: 2 arrays of history");
  const CommandResult json = Millrace({"snapshot_info", "--json", weights_, state_});
  EXPECT_EQ(json.status, 0) << json.errors;
  WriteFile(folder_ / "json", json.output);
  const CommandResult parsed = test::Run({"/usr/bin/python3", "-c",
                                          "import json, sys; files = json.load(open(sys.argv[1])); "
                                          "print(files[0]['layers'][1]['blobs']"
                                          "[0]['shape'], files[1]['iteration'], files[1]['seed'])",
                                          folder_ / "json"});
  EXPECT_EQ(parsed.output, "[2, 3] 3 5\n") << parsed.errors << json.output;
  // A bad file leaves nothing printed.
  ExpectOneLine(Millrace({"snapshot_info", weights_, net_}), {net_ + ": "});
  ExpectOneLine(Millrace({"snapshot_info", folder_ / "none"}), {"none: No such file"});
  ExpectOneLine(Millrace({"snapshot_info"}), {"no file given"});
}

TEST_F(ModelTools, ExtractFeaturesTakesFlagsAndCaffesArguments) {
  const CommandResult flags = Millrace(
      {"extract_features", Flag("model", net_), Flag("weights", weights_), "--blobs=ip,prob",
       Flag("output", folder_ / "f"), "--iterations=3", "--backend=leveldb"});
  EXPECT_EQ(flags.status, 0) << flags.errors;
  EXPECT_CONTAINS(flags.errors, "Wrote 12 records of blob prob to " + folder_ / "f_prob");
  EXPECT_EQ(OpenDatabase(folder_ / "f_ip")->size(), 12u);
  const CommandResult caffe =
      Millrace({"extract_features", weights_, net_, "ip,prob",
                StrCat(folder_ / "a", ",", folder_ / "b"), "2", "lmdb", "CPU"});
  EXPECT_EQ(caffe.status, 0) << caffe.errors;
  EXPECT_EQ(OpenDatabase(folder_ / "b")->size(), 8u);
  const auto refused = [&](std::vector<std::string> arguments, const char* reason) {
    arguments.insert(arguments.begin(), "extract_features");
    ExpectOneLine(Millrace(arguments), {reason});
  };
  refused({weights_, net_, "ip", "a,b", "2", "lmdb"}, "1 blobs and 2 databases given");
  refused({weights_, net_, "ip", "a", "two", "lmdb"}, "'two' given");
  refused({weights_, net_, "ip", "a", "2", "lmdb", "TPU"}, "'TPU' given");
  refused({weights_, net_}, "2 arguments given");
  refused({Flag("model", net_), Flag("weights", weights_), "--blobs=ip"}, "--output is missing");
  refused({weights_, net_, "nothing", folder_ / "c", "2", "lmdb"}, "no blob 'nothing'");
}

TEST_F(ModelTools, ConvertWritesOnnxOrTellsThatTheBuildCannot) {
  const CommandResult result =
      Millrace({"convert", "--to=onnx", Flag("model", net_), Flag("weights", weights_),
                Flag("output", folder_ / "net.onnx")});
  if (result.status != 0) {
    ExpectOneLine(result, {"--to=onnx: in module onnx, which is not installed"});
  } else {
    EXPECT_CONTAINS(result.errors, "Wrote " + folder_ / "net.onnx");
    EXPECT_CONTAINS(ReadFile(folder_ / "net.onnx"), "Softmax");
  }
  ExpectOneLine(Millrace({"convert", "--to=text", Flag("model", net_), Flag("weights", weights_),
                          Flag("output", folder_ / "net")}),
                {"--to=text: expected caffemodel, npz, onnx or safetensors"});
}

}  // namespace
}  // namespace millrace::test
