// Files in earlier formats, upgraded by Caffe's own tools (test/caffe/fixture/README.md).
#include "base/files/file.h"
#include "proto/upgrade.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

const std::string kFolder = "test/caffe/fixture/upgrade/";

// What is written for `message`, and what Caffe's tool wrote.
void ExpectCaffesText(const google::protobuf::Message& message, const std::string& name) {
  TempDir work;
  SaveText(work / name, message);
  EXPECT_EQ(ReadFile(work / name), ReadFile(kFolder + name + ".upgraded.prototxt"));
}

class CaffeUpgrade : public testing::TestWithParam<const char*> {};

TEST_P(CaffeUpgrade, GivesTheSameText) {
  caffe::NetParameter net;
  SourceMap source;
  LoadText(kFolder + GetParam() + ".prototxt", &net, &source);
  EXPECT_EQ(UpgradeNet(source, &net).problems, std::vector<std::string>());
  ExpectCaffesText(net, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Nets, CaffeUpgrade, testing::Values("v0", "v1", "inputs"));

TEST(CaffeUpgradeSolver, GivesTheSameText) {
  caffe::SolverParameter solver;
  LoadText(kFolder + "solver.prototxt", &solver, nullptr);
  EXPECT_TRUE(UpgradeSolver(&solver));
  ExpectCaffesText(solver, "solver");
}

}  // namespace
}  // namespace millrace::test
