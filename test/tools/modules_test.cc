// The modules of the library: what happens where they are missing or do not fit.
#include "base/module.h"

#include <filesystem>
#include <set>

#include "millrace/version.h"
#include "test/support/problem.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class ModulesCommand : public testing::Test {
 protected:
  // As a user whose modules lie in folder_ only.
  CommandResult WithFolder(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {"/usr/bin/env", "MILLRACE_MODULES=" + folder_.path()};
    for (const std::string& each : Command(arguments)) command.push_back(each);
    return test::Run(command);
  }
  // The line of `millrace backends` below the one of a module.
  static std::string StateOf(const std::string& module, const std::string& output) {
    const std::vector<std::string> found =
        Matches(output, "(?:^|\n)" + module + " [^\n]*\n *([^\n]*)");
    return found.empty() ? "" : found[0];
  }
  std::string NotInstalled(const std::string& module) {
    return StrCat("module ", module, ", which is not installed (", module, ".so is not in ",
                  folder_.path(), ")");
  }
  TempDir folder_;
};

TEST_F(ModulesCommand, BackendsListsWhereEachLies) {
  const CommandResult result = Millrace({"backends"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_TRUE(StateOf("contrib", result.output).ends_with("/modules/contrib.so"));
  for (const Module& module : Modules()) {
    const std::string name(module.name);
    const std::string file = ModuleFile(name);
    const std::string state = StateOf(name, result.output);
    EXPECT_EQ(state, file.empty() ? "not usable: " + LoadModule(name) : file);
  }
  const CommandResult without = WithFolder({"backends"});
  EXPECT_EQ(without.status, 0) << without.errors;
  for (const Module& module : Modules()) {
    const std::string name(module.name);
    EXPECT_EQ(StateOf(name, without.output), "not usable: " + NotInstalled(name));
  }
}

TEST_F(ModulesCommand, ThatAreMissingAreNamedWhereTheyAreNeeded) {
  const TempDir work;
  const std::string net = work / "boxes.prototxt";
  WriteFile(net,
            "layer { name: 'i' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 3 dim: 4 "
            "dim: 4 } } } layer { name: 'p' type: 'Permute' bottom: 'x' top: 'y' }");
  ExpectOneLine(WithFolder({"time", "--model=" + net, "--iterations=1"}),
                {net, "layer 'p': type: layer type 'Permute' is in " + NotInstalled("contrib")});
  EXPECT_EQ(Millrace({"time", "--model=" + net, "--iterations=1"}).status, 0);
  ExpectOneLine(WithFolder({"convert_annoset", work.path(), net, work / "db"}),
                {"the converter of images with boxes is in " + NotInstalled("contrib")});
  WriteFile(work / "model.onnx", "not a model");
  ExpectOneLine(WithFolder({"convert", "--weights=" + work / "model.onnx", "--to=npz",
                            "--output=" + work / "model.npz"}),
                {"the reader of ONNX models is in " + NotInstalled("onnx")});
  const CommandResult transports = WithFolder({"transports"});
  EXPECT_EQ(transports.status, 0) << transports.errors;
  EXPECT_CONTAINS(transports.output, "  in " + NotInstalled("verbs"));
}

TEST_F(ModulesCommand, ARunThatNeedsNoneTrainsWithoutThem) {
  Workspace work;
  const std::string solver = work.Write("run", Workspace::Solver(20));
  const CommandResult result = WithFolder({"train", "--solver=" + solver, "--gpu=0"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors,
                  "--gpu=0, but this program has no GPU driver: it is in " + NotInstalled("cuda"));
}

TEST_F(ModulesCommand, ARunThatNeedsNoneLoadsNone) {
  Workspace work;
  const std::string solver = work.Write("run", Workspace::Solver(20));
  std::vector<std::string> command = {"/usr/bin/env", "LD_DEBUG=files",
                                      "LD_DEBUG_OUTPUT=" + (folder_ / "loaded")};
  for (const std::string& each : Command({"train", "--solver=" + solver})) command.push_back(each);
  const CommandResult result = test::Run(command);
  EXPECT_EQ(result.status, 0) << result.errors;
  std::string loaded;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
    loaded += ReadFile(file.path().string());
  }
  EXPECT_CONTAINS(loaded, "libmillrace.so.");
  for (const Module& module : Modules()) {
    EXPECT_EQ(loaded.find(StrCat("/modules/", module.name, ".so")), loaded.npos) << module.name;
  }
}

TEST_F(ModulesCommand, ThatCannotBeLoadedAreNamedWithTheReason) {
  WriteFile(folder_ / "onnx.so", "no shared object");
  std::string of_another = ReadFile(ModuleFile("contrib"));
  const std::string node = "MILLRACE_PRIVATE_" + std::string(Version());
  const size_t at = of_another.find(node);
  ASSERT_NE(at, of_another.npos);
  of_another[at + node.size() - 1] ^= 1;
  WriteFile(folder_ / "contrib.so", of_another);
  const CommandResult result = WithFolder({"backends"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(StateOf("onnx", result.output),
                  "not usable: module onnx, which cannot be loaded (" + folder_ / "onnx.so");
  const std::string contrib = StateOf("contrib", result.output);
  EXPECT_CONTAINS(contrib, "not usable: module contrib, which cannot be loaded (");
  EXPECT_CONTAINS(contrib, "MILLRACE_PRIVATE_");
}

// The library knows every layer type of contrib by name, to name the module where it is missing.
TEST(ContribLayers, AreKnownToTheLibrary) {
  const std::set<std::string> known = {
#include "nn/contrib_layers.inc"
  };
  size_t registered = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator("src/contrib")) {
    if (file.path().extension() != ".cc") continue;
    registered += Matches(ReadFile(file.path().string()), "(\\bRegisterLayer<)").size();
  }
  EXPECT_EQ(known.size(), registered);
  EXPECT_EQ(known.count("PriorBox"), 1u);
}

}  // namespace
}  // namespace millrace::test
