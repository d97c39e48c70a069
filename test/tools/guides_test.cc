// The examples of docs/guides: what the pages show is what is built and run here, and in
// plugin_cluster_test.cc.
#include <algorithm>
#include <filesystem>

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
