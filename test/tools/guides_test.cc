// The examples of docs/guides: what the pages show is what is built and run here, and in
// plugin_cluster_test.cc.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "metrics/metrics_writer.h"
#include "solver/snapshot.h"
#include "test/tools/installed.h"

namespace millrace::test {
namespace {

using Guides = Installed;

// "`examples/extend/NAME.cc` is complete:" is followed by that file.
TEST(GuidePages, ShowTheFilesThatAreBuilt) {
  int pages = 0;
  for (const auto& page : std::filesystem::directory_iterator("docs/guides")) {
    const std::string text = ReadFile(page.path().string());
    const std::vector<std::string> files =
        Matches(text, "`(examples/extend/[a-z_]*[.]cc)` is complete:");
    ASSERT_EQ(files.size(), 1u) << page.path();
    EXPECT_CONTAINS(text, "```cpp\n" + ReadFile(files[0]) + "```\n");
    ++pages;
  }
  const auto examples = std::filesystem::directory_iterator("examples/extend");
  EXPECT_EQ(pages, std::count_if(begin(examples), end(examples), [](const auto& entry) {
              return entry.path().extension() == ".cc";
            }));
}

// Rows of the operators' table name tests, as "`Suite.Name`"; each of them exists.
TEST(OperationsPage, NamesTestsThatExist) {
  const std::string page = ReadFile("docs/operations.md");
  const size_t table = page.find("## What users of other systems ask for");
  ASSERT_NE(table, page.npos);
  std::set<std::string> tests;
  for (const auto& file : std::filesystem::recursive_directory_iterator("test")) {
    if (file.path().extension() != ".cc") continue;
    const std::string text = ReadFile(file.path().string());
    const std::string macro = "TEST(?:_F|_P)?\\(\\s*(\\w+),\\s*(\\w+)\\)";
    const std::vector<std::string> suites = Matches(text, macro, 1),
                                   names = Matches(text, macro, 2);
    for (size_t i = 0; i < suites.size(); ++i) tests.insert(suites[i] + "." + names[i]);
  }
  const std::vector<std::string> named = Matches(page.substr(table), "`([A-Z]\\w+[.][A-Z]\\w+)`");
  EXPECT_GT(named.size(), 20u);
  for (const std::string& name : named) EXPECT_EQ(tests.count(name), 1u) << name;
}

TEST_F(Guides, ADataSource) {
  const std::string plugin = "--plugins=" + Plugin("csv_source");
  // Two classes: the sign of the first value.
  std::string points;
  for (int i = 0; i < 200; ++i) {
    const int label = i % 2;
    points += StrCat(label, ",", label == 0 ? -1 - i % 5 : 1 + i % 5, ",", i % 7 - 3, "\n");
  }
  WriteFile(folder_ / "points.csv", points);
  WriteFile(folder_ / "net.prototxt",
            StrCat("name: 'points' layer { name: 'data' type: 'Data' top: 'data' top: 'label'"
                   " data_param { source: 'csv:",
                   folder_ / "points.csv",
                   "' batch_size: 20 } }"
                   " layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
                   " inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }"
                   " layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' }"
                   " layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label'"
                   " top: 'accuracy' include { phase: TEST } }"));
  WriteFile(folder_ / "solver.prototxt",
            StrCat("net: '", folder_ / "net.prototxt",
                   "' base_lr: 0.1 lr_policy: 'fixed'"
                   " max_iter: 200 test_iter: 10 test_interval: 200 snapshot_prefix: '",
                   folder_ / "points", "'"));
  const std::string solver = "--solver=" + (folder_ / "solver.prototxt");
  const CommandResult trained = InstalledMillrace({"train", solver, plugin});
  EXPECT_EQ(trained.status, 0) << trained.errors;
  EXPECT_CONTAINS(trained.output, "accuracy = 1.0000");
  // Without the plugin the name is a path; a bad line is named.
  ExpectOneLine(InstalledMillrace({"train", solver}), {"csv:", "points.csv"});
  WriteFile(folder_ / "points.csv", "1,2,3\n0,x\n");
  ExpectOneLine(InstalledMillrace({"train", solver, plugin}),
                {"data_param.source[0]", "points.csv:2", "expected numbers separated by commas"});
}

TEST_F(Guides, AControlCommand) {
  Workspace work;
  Process training(
      InstalledCommand({"train", "--solver=" + work.Write("run", Workspace::Solver(100'000'000)),
                        "--control=0", "--plugins=" + Plugin("scale_rate_command")}));
  ASSERT_TRUE(WaitForLog(training, "Control service: http://")) << training.ErrorsSoFar();
  const std::string address =
      Matches(training.ErrorsSoFar(), "Control service: http://([^\\s]*)").at(0);
  const auto ctl = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"ctl", "--control=" + address});
    return InstalledMillrace(arguments);
  };
  EXPECT_EQ(ctl({"commands"}).output, "scale_rate  Multiplies the learning rate.\n");
  EXPECT_EQ(ctl({"rate", "0.25"}).status, 0);
  EXPECT_TRUE(Eventually([&] {
    return ctl({"status", "--json"}).output.find("\"learning_rate\":0.25,") != std::string::npos;
  }));
  EXPECT_EQ(ctl({"call", "scale_rate", "0.5"}).output, "0.125000\n");
  ExpectOneLine(ctl({"call", "scale_rate", "\"x\""}),
                {"command scale_rate: expected a factor above 0"});
  EXPECT_EQ(ctl({"stop"}).status, 0);
  EXPECT_EQ(training.Wait().status, 0);
}

TEST_F(Guides, ALayer) {
  const std::string plugin = "--plugins=" + Plugin("scaled_tanh_layer");
  Workspace work;
  const auto net = [&](const std::string& fields) {
    work.WriteNet(StrCat(work.Net().Text(),
                         " layer { name: 'st' type: 'ScaledTanh' bottom: 'data' top: 'st' ", fields,
                         " } layer { name: 'st_ip' type: 'InnerProduct' bottom: 'st' top: 'st_ip'"
                         " inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }"
                         " layer { name: 'st_loss' type: 'SoftmaxWithLoss' bottom: 'st_ip'"
                         " bottom: 'label' top: 'st_loss' }"));
  };
  net("custom_param { key: 'scale' value: '1.7' }");
  const std::string solver = "--solver=" + work.Write("run", Workspace::Solver(20));
  const CommandResult trained = InstalledMillrace({"train", solver, plugin});
  EXPECT_EQ(trained.status, 0) << trained.errors;
  // The scale has been learned: it is saved, and no longer what the filler made.
  bool found = false;
  const caffe::NetParameter model = LoadModel(work.Snapshot("run", 20) + ".caffemodel");
  for (const caffe::LayerParameter& layer : model.layer()) {
    if (layer.name() != "st") continue;
    found = true;
    ASSERT_EQ(layer.blobs_size(), 1);
    ASSERT_EQ(layer.blobs(0).data_size(), 1);  // one channel
    EXPECT_NE(layer.blobs(0).data(0), 1.7f);
    EXPECT_NEAR(layer.blobs(0).data(0), 1.7f, 1);
  }
  EXPECT_TRUE(found);
  ExpectOneLine(InstalledMillrace({"train", solver}), {"layer 'st'", "ScaledTanh"});
  net("custom_param { key: 'scael' value: '1.7' }");
  ExpectOneLine(InstalledMillrace({"train", solver, plugin}),
                {"net.prototxt", "layer 'st'", "no parameter scael, expected one of scale"});
  net("custom_param { key: 'scale' value: 'big' }");
  ExpectOneLine(InstalledMillrace({"train", solver, plugin}),
                {"layer 'st'", "scale is 'big', expected a number"});
}

TEST_F(Guides, ALayerInC) {
  const std::string plugin = "--plugins=" + Plugin("swish_layer");
  Workspace work;
  const auto net = [&](const std::string& fields) {
    std::string text = work.Net().Text();
    const std::string relu = "type: 'ReLU' bottom: 'hidden' top: 'hidden'";
    const size_t at = text.find(relu);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, relu.size(), "type: 'LearnedSwish' bottom: 'hidden' top: 'swish' " + fields);
    const size_t bottom = text.find("bottom: 'hidden'", at + relu.size());
    ASSERT_NE(bottom, std::string::npos) << text;
    work.WriteNet(text.replace(bottom, 16, "bottom: 'swish'"));
  };
  net("custom_param { key: 'beta' value: '2' }");
  const std::string solver =
      "--solver=" + work.Write("run", Workspace::Tested(Workspace::Solver(200), 200));
  const CommandResult trained = InstalledMillrace({"train", solver, "--cpu=2", plugin});
  EXPECT_EQ(trained.status, 0) << trained.errors;
  EXPECT_CONTAINS(trained.output, "accuracy = 1.0000");
  // Its parameter has been learned.
  int found = 0;
  const caffe::NetParameter model = LoadModel(work.Snapshot("run", 200) + ".caffemodel");
  for (const caffe::LayerParameter& layer : model.layer()) {
    if (layer.type() != "LearnedSwish") continue;
    ++found;
    ASSERT_EQ(layer.blobs_size(), 1);
    ASSERT_EQ(layer.blobs(0).data_size(), 1);
    EXPECT_NE(layer.blobs(0).data(0), 2.0f);
  }
  EXPECT_EQ(found, 1);
  ExpectOneLine(InstalledMillrace({"train", solver}), {"LearnedSwish"});
  net("custom_param { key: 'beta' value: '-1' }");
  ExpectOneLine(InstalledMillrace({"train", solver, plugin}),
                {"net.prototxt:", "beta is -1, expected a number above 0"});
}

// What the function of a plugin reports ends the program.
TEST_F(Guides, APluginInCThatRefuses) {
  WriteFile(folder_ / "refuses.c",
            "#include <millrace/plugin.h>\n"
            "int millrace_plugin_init(void) {\n"
            "  if (millrace_check_abi(MILLRACE_ABI_VERSION + 1) != MILLRACE_OK) return"
            " MILLRACE_ERROR;\n"
            "  return MILLRACE_OK;\n"
            "}\n");
  const std::string plugin = folder_ / "refuses.so";
  const CommandResult built =
      Shell("gcc -std=c99 -pedantic -Wall -Wextra -Werror -fPIC -shared " +
            (folder_ / "refuses.c") + " $(pkg-config --cflags --libs millrace) -o " + plugin);
  ASSERT_EQ(built.status, 0) << built.errors;
  ExpectOneLine(InstalledMillrace({"train", "--solver=x", "--plugins=" + plugin}),
                {"--plugins: ", "refuses.so: ", "compiled with interface ", "serves 1 to "});
}

TEST_F(Guides, ASyncCondition) {
  const std::string plugin = "--plugins=" + Plugin("furthest_condition");
  Workspace work;
  caffe::SolverParameter solver = Workspace::Tested(Workspace::Solver(120), 120);
  caffe::StrategyParameter& strategy = *solver.mutable_strategy();
  strategy.set_type("local");
  caffe::PartParameter& condition = *strategy.add_sync_condition();
  condition.set_type("furthest");
  (*condition.mutable_param())["above"] = 0.01;
  const CommandResult trained =
      InstalledMillrace({"train", "--solver=" + work.Write("run", solver), "--cpu=2", plugin});
  EXPECT_EQ(trained.status, 0) << trained.errors;
  EXPECT_CONTAINS(trained.output, "accuracy = ");
  (*condition.mutable_param())["least"] = 0.5;
  ExpectOneLine(InstalledMillrace({"train", "--solver=" + work.Write("bad", solver), plugin}),
                {"strategy.sync_condition[0].param", "least is 0.5",
                 "expected a whole number from 1 to 1e+06"});
}

TEST_F(Guides, ASampler) {
  const std::string plugin = "--plugins=" + Plugin("curriculum_sampler");
  Workspace work;
  const auto train = [&](const std::string& name, const caffe::SolverParameter& solver) {
    const CommandResult trained =
        InstalledMillrace({"train", "--solver=" + work.Write(name, solver), plugin});
    EXPECT_EQ(trained.status, 0) << trained.errors;
    return LoadModel(work.Snapshot(name, 30) + ".caffemodel").SerializeAsString();
  };
  caffe::SolverParameter solver = Workspace::Solver(30);
  const std::string plain = train("plain", solver);
  solver.mutable_sampler()->set_type("curriculum");
  const std::string sampled = train("sampled", solver);
  EXPECT_NE(sampled, plain);
  EXPECT_EQ(train("again", solver), sampled);
  // The defaults are those of its registration.
  (*solver.mutable_sampler()->mutable_param())["share"] = 0.25;
  EXPECT_EQ(train("default", solver), sampled);
  (*solver.mutable_sampler()->mutable_param())["share"] = 2;
  ExpectOneLine(InstalledMillrace({"train", "--solver=" + work.Write("bad", solver), plugin}),
                {"sampler.param", "share is 2", "expected a number from 0 to 1"});
  ExpectOneLine(InstalledMillrace({"train", "--solver=" + work.Write("bad", solver)}),
                {"unknown sampler 'curriculum'"});
}

TEST_F(Guides, AnUpdateRule) {
  const std::string plugin = "--plugins=" + Plugin("lion_rule");
  Workspace work;
  caffe::SolverParameter lion = Workspace::Tested(Workspace::Solver(0), 40);
  lion.set_type("Lion");
  lion.set_base_lr(0.001f);
  lion.clear_momentum();
  const auto train = [&](const std::string& name, int iterations, const std::string& more = "") {
    lion.set_max_iter(iterations);
    std::vector<std::string> arguments = {"train", "--solver=" + work.Write(name, lion), plugin};
    if (!more.empty()) arguments.push_back(more);
    return InstalledMillrace(arguments);
  };
  const auto weights = [&](const std::string& name, int64_t iteration) {
    return LoadModel(work.Snapshot(name, iteration) + ".caffemodel");
  };
  // The first step moves every weight with a gradient by the learning rate: of a hidden unit that
  // is off, no weight moves.
  lion.clear_weight_decay();
  const CommandResult none = train("step", 0);
  ASSERT_EQ(none.status, 0) << none.errors;
  ASSERT_EQ(train("step", 1).status, 0);
  const caffe::NetParameter before = weights("step", 0), after = weights("step", 1);
  int moved = 0;
  for (int layer = 0; layer < before.layer_size(); ++layer) {
    for (int blob = 0; blob < before.layer(layer).blobs_size(); ++blob) {
      const float step = blob == 0 ? 0.001f : 0.002f;  // lr_mult of biases
      for (int i = 0; i < before.layer(layer).blobs(blob).data_size(); ++i) {
        const float change =
            after.layer(layer).blobs(blob).data(i) - before.layer(layer).blobs(blob).data(i);
        if (change == 0) continue;
        ASSERT_NEAR(std::abs(change), step, 1e-6);
        ++moved;
      }
    }
  }
  EXPECT_GT(moved, 100);

  lion.set_weight_decay(0.01f);
  const CommandResult whole = train("whole", 200);
  EXPECT_EQ(whole.status, 0) << whole.errors;
  EXPECT_CONTAINS(whole.output, "accuracy = 1.0000");
  // Its history continues exactly from a snapshot.
  EXPECT_EQ(train("part", 120).status, 0);
  const std::string state = work.Snapshot("part", 120) + ".solverstate";
  const CommandResult resumed = train("part", 200, "--snapshot=" + state);
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_EQ(ReadFile(work.Snapshot("part", 200) + ".caffemodel"),
            ReadFile(work.Snapshot("whole", 200) + ".caffemodel"));
  const History history = LoadResumePoint(state).state.history();
  ASSERT_EQ(history.size(), 4);  // one slot of two layers with weights and bias
  for (const caffe::BlobProto& blob : history) {
    EXPECT_GT(std::count_if(blob.data().begin(), blob.data().end(), [](float m) { return m != 0; }),
              0);
  }
  EXPECT_EQ(train("two", 200, "--cpu=2").status, 0);

  ExpectOneLine(
      InstalledMillrace({"train", "--solver=" + (work / "whole.prototxt")}),
      {"whole.prototxt:", "type: ", "there is no update rule \"Lion\"", "Nesterov, RMSProp, SGD"});
  (*lion.mutable_custom_param())["beta3"] = "0.5";
  ExpectOneLine(train("key", 10), {"key.prototxt:", "custom_param: ",
                                   "the update rule \"Lion\" has no parameter beta3",
                                   "expected one of beta1, beta2"});
  lion.clear_custom_param();
  (*lion.mutable_custom_param())["beta2"] = "1";
  ExpectOneLine(train("value", 10), {"value.prototxt:", "custom_param: beta2 is 1, expected"});
  lion.clear_custom_param();
  lion.set_momentum(0.9f);
  ExpectOneLine(train("field", 10), {"field.prototxt:", "momentum: Lion has none"});
}

TEST_F(Guides, AMetricOfAPlugin) {
  WriteFile(
      folder_ / "counts.cc",
      "#include <millrace/metrics.h>\n"
      "static millrace::Counter* const rows =\n"
      "    millrace::MetricsRegistry::OfProcess().AddCounter({\"csv_rows_total\", \"Rows.\"});\n"
      "static const bool counted = (rows->AddShared(3), true);\n");
  const CommandResult built =
      Shell("g++ -std=c++20 -fPIC -shared " + (folder_ / "counts.cc") +
            " $(pkg-config --cflags --libs millrace) -o " + (folder_ / "counts.so"));
  ASSERT_EQ(built.status, 0) << built.errors;
  Workspace work;
  const CommandResult trained = InstalledMillrace(
      {"train", "--solver=" + work.Write("run", Workspace::Solver(3)),
       "--plugins=" + (folder_ / "counts.so"), "--metrics=" + (work / "run.jsonl")});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  int rows = 0;
  for (const MetricsRow& row : ReadMetrics(work / "run.jsonl")) {
    if (!row.has_train()) continue;
    ++rows;
    ASSERT_EQ(row.program().size(), 1u);
    EXPECT_EQ(row.program().at("csv_rows"), 3);
  }
  EXPECT_EQ(rows, 3);
}

TEST(Plugins, ThatCannotBeLoadedAreNamedInOneLine) {
  TempDir folder;
  ExpectOneLine(Millrace({"train", "--solver=x", "--plugins=none.so"}),
                {"--plugins: ", "none.so", "expected a shared library"});
  WriteFile(folder / "text.so", "text");
  ExpectOneLine(Millrace({"time", "--model=x", "--plugins=" + (folder / "text.so")}),
                {"--plugins: ", "text.so", "expected a shared library"});
}

}  // namespace
}  // namespace millrace::test
