#include "solver/solver_config.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/files/file.h"
#include "millrace/device.h"
#include "test/support/support.h"

namespace millrace {
namespace {

// The smallest complete solver; tests append to it.
const std::string kBasic = "base_lr: 0.1\nlr_policy: 'fixed'\nmax_iter: 10\n";
const std::string kNet = "net: 'net.prototxt'\n";
const std::string kNetText = "name: 'n'\nlayer { name: 'a' type: 'Input' top: 'a' }\n";

// In-memory files: nets by name, and the directories that were requested.
struct MemoryFiles {
  std::map<std::string, std::string> nets = {{"net.prototxt", kNetText}};
  std::vector<std::string> folders;   // existing directories
  std::vector<std::string> prepared;  // in order of request
  std::string unwritable;             // the directory that cannot be prepared

  SolverFiles Files() {
    SolverFiles files;
    files.load_net = [this](const std::string& path, const std::string&, caffe::NetParameter* net,
                            SourceMap* source) {
      const auto found = nets.find(path);
      if (found == nets.end()) throw FieldError("", path, ": No such file or directory");
      ParseText(found->second, path, net, source);
    };
    files.is_folder = [this](const std::string& path) {
      return std::find(folders.begin(), folders.end(), path) != folders.end();
    };
    files.prepare_folder = [this](const std::string& folder) {
      prepared.push_back(folder);
      if (!unwritable.empty() && folder == unwritable) throw Error(folder, ": Permission denied");
    };
    return files;
  }
};

SolverConfig Parse(const std::string& text) {
  return ParseSolverConfig(text, "dir/solver.prototxt", MemoryFiles().Files());
}

std::string Refusal(const std::string& text) {
  return test::ErrorOf([&] { Parse(text); });
}

bool HasNotice(const SolverConfig& config, const std::string& part) {
  return std::any_of(config.notices.begin(), config.notices.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

TEST(SolverConfig, ReadsACompleteSolver) {
  const SolverConfig config = Parse(kBasic + kNet + "random_seed: 7\nsnapshot_prefix: 'out/run'\n");
  EXPECT_EQ(config.param.max_iter(), 10);
  EXPECT_EQ(config.param.type(), "SGD");
  EXPECT_TRUE(config.param.has_type());
  EXPECT_EQ(config.train.param.name(), "n");
  EXPECT_EQ(config.train.source.Where("layer[0].type"), "net.prototxt:2");
  EXPECT_EQ(config.train.origin, "net file: net.prototxt");
  EXPECT_EQ(config.train.state.phase(), caffe::TRAIN);
  EXPECT_TRUE(config.tests.empty());
  EXPECT_EQ(config.seed, 7u);
  EXPECT_TRUE(config.notices.empty());
}

TEST(SolverConfig, NamesTheLineOfABadField) {
  const std::pair<std::string, std::string> cases[] = {
      {"momentum: nan", "momentum: nan is not a finite number"},
      {"clip_gradients: inf", "clip_gradients: inf is not a finite number"},
      {"average_loss: 0", "average_loss: 0 given, expected >= 1"},
      {"iter_size: 0", "iter_size: 0 given, expected >= 1"},
      {"weight_decay: 1 regularization_type: 'L3'",
       "regularization_type: \"L3\" given, expected \"L1\" or \"L2\""},
  };
  for (const auto& [line, message] : cases) {
    EXPECT_EQ(Refusal(kBasic + kNet + line + "\n"), "dir/solver.prototxt:5: " + message);
  }
}

TEST(SolverConfig, NamesTheFileWhereAFieldIsMissing) {
  EXPECT_EQ(Refusal(kBasic),
            "dir/solver.prototxt: net: missing; expected one of net, net_param, train_net, "
            "train_net_param");
}

TEST(SolverConfig, RefusesABadScheduleAtItsLine) {
  EXPECT_EQ(Refusal("base_lr: 1\nmax_iter: 3\nlr_policy: 'step'\ngamma: -1\nstepsize: 5\n" + kNet),
            "dir/solver.prototxt:4: gamma: -1 given, expected a number >= 0");
  EXPECT_CONTAINS(Refusal("base_lr: 1\nmax_iter: 3\nlr_policy: 'stairs'\n" + kNet),
                  "dir/solver.prototxt:3: lr_policy: there is no policy \"stairs\"; known: fixed");
}

TEST(SolverConfig, RefusesUnknownEvaluations) {
  EXPECT_CONTAINS(Refusal(kBasic + kNet + "eval_type: 'segmentation'\n"),
                  "dir/solver.prototxt:5: eval_type: \"segmentation\" given, expected");
  EXPECT_CONTAINS(Refusal(kBasic + kNet + "ap_version: 'Mean'\n"),
                  "dir/solver.prototxt:5: ap_version: \"Mean\" given, expected \"11point\"");
  EXPECT_EQ(Parse(kBasic + kNet + "eval_type: 'detection' ap_version: '11point'").param.eval_type(),
            "detection");
}

TEST(SolverConfig, RefusesSeveralTrainNets) {
  EXPECT_EQ(Refusal(kBasic + kNet + "train_net: 'net.prototxt'"),
            "dir/solver.prototxt:4: net: given beside train_net, expected one train net");
  EXPECT_EQ(
      Refusal(kBasic + "net_param { name: 'x' }\ntrain_net_param { name: 'y' }\n"),
      "dir/solver.prototxt:4: net_param: given beside train_net_param, expected one train net");
}

TEST(SolverConfig, RefusesANetThatIsNotThereAtTheLineThatNamesIt) {
  EXPECT_EQ(Refusal(kBasic + "net: 'gone.prototxt'"),
            "dir/solver.prototxt:4: net: gone.prototxt: No such file or directory");
  EXPECT_EQ(Refusal(kBasic + "train_net: ''"),
            "dir/solver.prototxt:4: train_net: is empty, expected the path of a net");
}

TEST(SolverConfig, KeepsThePlaceOfErrorsInsideANetFile) {
  MemoryFiles memory;
  memory.nets["net.prototxt"] = "name: 'n'\nlayer { nonsense: 1 }\n";
  const std::string error =
      test::ErrorOf([&] { ParseSolverConfig(kBasic + kNet, "solver.prototxt", memory.Files()); });
  EXPECT_CONTAINS(error, "net.prototxt:2:");
  EXPECT_CONTAINS(error, "nonsense");
}

TEST(SolverConfig, FindsTheLinesOfANetWrittenIntoTheSolver) {
  const SolverConfig config =
      Parse(kBasic + "train_net_param {\n  layer { name: 'a' }\n  layer {\n    name: 'b' }\n}\n");
  EXPECT_EQ(config.train.origin, "train_net_param");
  EXPECT_EQ(config.train.source.Where("layer[1].name"), "dir/solver.prototxt:7");
}

TEST(SolverConfig, OrdersTestNetsAsCaffeDoes) {
  MemoryFiles memory;
  memory.nets["t.prototxt"] = "name: 'from test_net'";
  const SolverConfig config = ParseSolverConfig(
      kBasic + kNet +
          "test_interval: 5 test_net: 't.prototxt' test_net_param { name: 'embedded' }"
          "test_iter: 10 test_iter: 20 test_iter: 30 test_iter: 40",
      "solver.prototxt", memory.Files());
  ASSERT_EQ(config.tests.size(), 4u);
  EXPECT_EQ(config.tests[0].param.name(), "embedded");
  EXPECT_EQ(config.tests[1].param.name(), "from test_net");
  EXPECT_EQ(config.tests[2].param.name(), "n");
  EXPECT_EQ(config.tests[3].param.name(), "n");
  EXPECT_EQ(config.tests[1].origin, "test_net file: t.prototxt");
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(config.tests[i].test_iter, 10 * (i + 1));
    EXPECT_EQ(config.tests[i].state.phase(), caffe::TEST);
  }
}

TEST(SolverConfig, WantsOneTestIterForEachTestNet) {
  EXPECT_EQ(Refusal(kBasic + "train_net: 'net.prototxt'\ntest_net: 'net.prototxt'\n"
                             "test_interval: 5 test_iter: 1\ntest_iter: 2\n"),
            "dir/solver.prototxt:6: test_iter: 2 given for 1 test nets, expected one per test net");
  EXPECT_CONTAINS(Refusal(kBasic + kNet + "test_interval: 5 test_net: 'net.prototxt'"),
                  "test_iter: 0 given for 1 test nets");
}

TEST(SolverConfig, WantsATestIntervalWhereThereAreTestNets) {
  EXPECT_EQ(Refusal(kBasic + kNet + "test_iter: 3"),
            "dir/solver.prototxt: test_interval: missing; there are test nets (see test_iter)");
  EXPECT_EQ(
      Refusal(kBasic + kNet + "test_iter: 3\ntest_interval: -5"),
      "dir/solver.prototxt:6: test_interval: -5 given, expected > 0; there are test nets (see "
      "test_iter)");
}

TEST(SolverConfig, WantsATestStateForEachTestNetOrNone) {
  const std::string tests = kBasic + kNet + "test_interval: 5 test_iter: 3 test_iter: 3\n";
  EXPECT_EQ(Refusal(tests + "test_state { level: 1 }"),
            "dir/solver.prototxt:6: test_state: 1 given for 2 test nets, expected none or one per "
            "test net");
  const SolverConfig config = Parse(tests + "test_state { level: 1 } test_state { level: 2 }");
  EXPECT_EQ(config.tests[0].state.level(), 1);
  EXPECT_EQ(config.tests[1].state.level(), 2);
}

TEST(SolverConfig, MergesTheStateOfANetUnderThatOfTheSolver) {
  MemoryFiles memory;
  memory.nets["net.prototxt"] = "state { level: 3 stage: 'own' }";
  const SolverConfig config =
      ParseSolverConfig(kBasic + kNet +
                            "train_state { stage: 'train' } test_interval: 1 test_iter: 1 "
                            "test_state { level: 4 stage: 'test' }",
                        "solver.prototxt", memory.Files());
  EXPECT_EQ(config.train.state.ShortDebugString(),
            "phase: TRAIN level: 3 stage: \"own\" stage: \"train\"");
  EXPECT_EQ(config.tests[0].state.ShortDebugString(),
            "phase: TEST level: 4 stage: \"own\" stage: \"test\"");
  EXPECT_EQ(config.train.param.state().ShortDebugString(), config.train.state.ShortDebugString());
}

TEST(SolverConfig, UpgradesTheOldSolverType) {
  const std::pair<std::string, std::string> types[] = {
      {"SGD", "SGD"},         {"NESTEROV", "Nesterov"}, {"ADAGRAD", "AdaGrad"},
      {"RMSPROP", "RMSProp"}, {"ADADELTA", "AdaDelta"}, {"ADAM", "Adam"}};
  for (const auto& [old_name, name] : types) {
    EXPECT_EQ(Parse(kBasic + kNet + "solver_type: " + old_name).param.type(), name);
  }
  EXPECT_EQ(Refusal(kBasic + kNet + "type: 'SGD'\nsolver_type: SGD"),
            "dir/solver.prototxt:6: solver_type: SGD given beside type: \"SGD\", expected one of "
            "them");
}

TEST(SolverConfig, RefusesAnUnknownRuleAndListsTheKnownOnes) {
  const std::string error = Refusal(kBasic + kNet + "type: 'sgd'");
  EXPECT_CONTAINS(error, "dir/solver.prototxt:5: type: there is no update rule \"sgd\"; known: ");
  EXPECT_CONTAINS(error, "SGD");
}

TEST(SolverConfig, DrawsASeedWhenNoneIsGivenAndSaysWhich) {
  const SolverConfig one = Parse(kBasic + kNet), other = Parse(kBasic + kNet + "random_seed: -1");
  EXPECT_NE(one.seed, other.seed);
  EXPECT_LE(one.seed, uint64_t{INT64_MAX});  // fits into random_seed
  for (const SolverConfig* config : {&one, &other}) {
    EXPECT_TRUE(HasNotice(*config, StrCat("random_seed is not given; drew ", config->seed)));
  }
}

TEST(SolverConfig, PreparesTheFolderOfSnapshots) {
  MemoryFiles memory;
  ParseSolverConfig(kBasic + kNet + "snapshot: 5 snapshot_prefix: 'a/b/run'", "solver.prototxt",
                    memory.Files());
  EXPECT_EQ(memory.prepared, std::vector<std::string>{"a/b/"});
}

// ---- What Caffe 1.0 accepts ----

bool HasWarning(const SolverConfig& config, const std::string& part) {
  return std::any_of(config.warnings.begin(), config.warnings.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

TEST(SolverConfig, TakesTheFieldsOfOtherRulesBesideSgd) {
  const SolverConfig config =
      Parse(kBasic + kNet +
            "type: 'SGD' momentum: 0.9 momentum2: 0.5 delta: 1e-3 rms_decay: 2 gamma: 0.1 power: 3 "
            "stepsize: 4 stepvalue: 5 debug_info: true layer_wise_reduce: false "
            "test_compute_loss: true device_id: 3 solver_mode: CPU weights: 'a, b' weights: 'c' "
            "regularization_type: 'none' snapshot_format: HDF5 clip_gradients: 0");
  EXPECT_TRUE(config.warnings.empty());
  EXPECT_EQ(config.param.weights_size(), 2);
}

TEST(SolverConfig, WarnsOfSettingsWhoseEffectIsHardlyWanted) {
  const std::pair<std::string, std::string> cases[] = {
      {"lr_policy: 'fixed' max_iter: 10 ", "base_lr is not given: the learning rate is 0"},
      {"lr_policy: 'fixed' base_lr: 1 ", "max_iter is not given: the run ends"},
      {"lr_policy: 'fixed' base_lr: -1 max_iter: 10 ", "base_lr is -1: the weights climb"},
      {kBasic + "momentum: -0.5 ", "momentum is -0.5, which is not from 0 to less than 1"},
      {kBasic + "momentum: 1.5 ", "momentum is 1.5, which"},
      {kBasic + "weight_decay: -1 ", "weight_decay is -1: the weights grow"},
      {"base_lr: 1 max_iter: 9 lr_policy: 'step' stepsize: 3 ", "gamma is not given"},
      {"base_lr: 1 max_iter: 9 lr_policy: 'exp' ", "gamma is not given"},
      {"base_lr: 1 max_iter: 9 lr_policy: 'inv' power: 1 ", "gamma is not given"},
      {"base_lr: 1 max_iter: 9 lr_policy: 'inv' gamma: 1 ", "power is not given"},
      {"base_lr: 1 max_iter: 9 lr_policy: 'poly' ", "power is not given"},
      {"base_lr: 1 max_iter: 9 lr_policy: 'sigmoid' stepsize: 3 ", "gamma is not given"},
      {"base_lr: 1 max_iter: 9 lr_policy: 'multistep' gamma: 1 ", "stepvalue is not given"},
      {"base_lr: 1 max_iter: 9 lr_policy: 'multistep' gamma: 1 stepvalue: 5 stepvalue: 5 ",
       "the values of stepvalue do not increase"},
      {kBasic + "test_interval: 3 test_iter: 0 ", "test_iter[0] is 0: the tests of that net"},
  };
  for (const auto& [text, warning] : cases) {
    const SolverConfig config = Parse(text + kNet);
    EXPECT_EQ(config.warnings.size(), 1u) << text;
    EXPECT_TRUE(HasWarning(config, warning)) << text;
  }
  EXPECT_TRUE(Parse(kBasic + kNet + "momentum: 0.9 weight_decay: 0.1").warnings.empty());
}

TEST(SolverConfig, TakesIntervalsWithoutTheirSign) {
  const SolverConfig config =
      Parse(kBasic + kNet + "display: -20 snapshot: -500 test_interval: -3 random_seed: -9");
  EXPECT_EQ(config.param.display(), 20);
  EXPECT_EQ(config.param.snapshot(), 500);
  EXPECT_EQ(config.param.test_interval(), 0);
  EXPECT_TRUE(HasNotice(config, "random_seed is not given; drew "));
  EXPECT_EQ(Parse(kBasic + kNet + "display: -2147483648").param.display(), INT32_MAX);
  EXPECT_EQ(Parse("base_lr: 1 lr_policy: 'fixed' max_iter: -4 " + kNet).param.max_iter(), 0);
}

TEST(SolverConfig, TakesATestNetWithoutBatches) {
  const SolverConfig config =
      Parse(kBasic + kNet + "test_interval: 3 test_iter: 0 test_iter: 2 test_iter: -1");
  ASSERT_EQ(config.tests.size(), 3u);
  EXPECT_EQ(config.tests[0].test_iter, 0);
  EXPECT_EQ(config.tests[1].test_iter, 2);
  EXPECT_EQ(config.tests[2].test_iter, 0);
}

TEST(SolverConfig, DerivesThePrefixOfScheduledSnapshots) {
  const SolverConfig config = Parse(kBasic + kNet + "snapshot: 5 snapshot_after_train: false");
  EXPECT_EQ(config.param.snapshot_prefix(), "dir/solver");
  EXPECT_TRUE(HasNotice(config, "snapshot_prefix is not given; using dir/solver"));
}

TEST(SolverConfig, NeedsNoSnapshotFolderWhereNothingIsSaved) {
  MemoryFiles memory;
  memory.unwritable = "a/";
  const std::string text = kBasic + kNet + "snapshot_prefix: 'a/run' snapshot_after_train: false ";
  ParseSolverConfig(text, "solver.prototxt", memory.Files());
  EXPECT_CONTAINS(test::ErrorOf([&] {
                    ParseSolverConfig(text + "snapshot: -1", "solver.prototxt", memory.Files());
                  }),
                  "snapshot_prefix: a/: Permission denied");
}

TEST(SolverConfig, TakesATrainNetBesideTestNets) {
  MemoryFiles memory;
  memory.nets["train.prototxt"] = "name: 'train'";
  memory.nets["test.prototxt"] = "name: 'test'";
  const std::string tests = "test_net: 'test.prototxt' test_interval: 1 test_iter: 1 ";
  for (const char* train : {"train_net: 'train.prototxt'", "net: 'train.prototxt'",
                            "train_net_param { name: 'train' }", "net_param { name: 'train' }"}) {
    const SolverConfig config =
        ParseSolverConfig(kBasic + tests + train, "solver.prototxt", memory.Files());
    EXPECT_EQ(config.train.param.name(), "train") << train;
    ASSERT_EQ(config.tests.size(), 1u) << train;
    EXPECT_EQ(config.tests[0].param.name(), "test") << train;
  }
  EXPECT_TRUE(ParseSolverConfig(kBasic + "train_net: 'train.prototxt' test_interval: 5",
                                "solver.prototxt", memory.Files())
                  .tests.empty());
}

TEST(SolverConfig, RefusesASnapshotFolderThatCannotBeWritten) {
  MemoryFiles memory;
  memory.unwritable = "a/";
  EXPECT_EQ(test::ErrorOf([&] {
              ParseSolverConfig(kBasic + kNet + "snapshot_prefix: 'a/run'", "solver.prototxt",
                                memory.Files());
            }),
            "solver.prototxt:5: snapshot_prefix: a/: Permission denied");
}

TEST(SolverConfig, NamesSnapshotsAfterTheSolverFileAsCaffeDoes) {
  EXPECT_EQ(Parse(kBasic + kNet).param.snapshot_prefix(), "dir/solver");
  EXPECT_TRUE(HasNotice(Parse(kBasic + kNet), "using dir/solver"));
  MemoryFiles memory;
  memory.folders = {"out"};
  const SolverConfig config = ParseSolverConfig(
      kBasic + kNet + "snapshot: 1 snapshot_prefix: 'out'", "dir/solver.prototxt", memory.Files());
  EXPECT_EQ(config.param.snapshot_prefix(), "out/solver");
}

TEST(SolverConfig, TellsWhoAsksForAGpuWhyThereIsNone) {
  DeviceDriver* cuda = DeviceRegistry::Get().FindDriver(DeviceType::kCuda);
  if (cuda && !cuda->List().empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_TRUE(HasNotice(Parse(kBasic + kNet + "solver_mode: GPU"), "using the CPU"));
  EXPECT_FALSE(HasNotice(Parse(kBasic + kNet + "solver_mode: CPU"), "CPU"));
  EXPECT_FALSE(HasNotice(Parse(kBasic + kNet), "CPU"));
}

TEST(SolverConfig, MergesACallersTrainState) {
  caffe::NetState more;
  more.add_stage("b");
  const auto state = [&](const std::string& text) {
    return ParseSolverConfig(kBasic + kNet + text, "solver.prototxt", MemoryFiles().Files(), more)
        .train.state;
  };
  EXPECT_EQ(state("").stage(0), "b");
  EXPECT_EQ(state("").level(), 0);
  const std::string own = "train_state { level: 2 stage: 'a' }";
  EXPECT_EQ(state(own).level(), 2);
  more.set_level(1);
  EXPECT_EQ(state(own).level(), 1);
  ASSERT_EQ(state(own).stage_size(), 2);
  EXPECT_EQ(state(own).stage(0), "a");
  EXPECT_EQ(state(own).stage(1), "b");
  EXPECT_EQ(state(own).phase(), caffe::TRAIN);
}

TEST(SolverConfigFile, FindsTheNetBesideTheSolverAndCreatesTheSnapshotFolder) {
  test::TempDir folder;
  test::WriteFile(folder / "net.prototxt", kNetText);
  test::WriteFile(folder / "solver.prototxt", kBasic + kNet + "snapshot: 5 snapshot_prefix: '" +
                                                  (folder / "new/deep/run") + "'");
  const SolverConfig config = LoadSolverConfig(folder / "solver.prototxt");
  EXPECT_EQ(config.train.source.file(), folder / "net.prototxt");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "new/deep"));
}

TEST(SolverConfigFile, RefusesASnapshotFolderWhoseNameIsAFile) {
  test::TempDir folder;
  test::WriteFile(folder / "net.prototxt", kNetText);
  test::WriteFile(folder / "taken", "");
  test::WriteFile(folder / "solver.prototxt",
                  kBasic + kNet + "snapshot_prefix: '" + (folder / "taken/run") + "'");
  const std::string error = test::ErrorOf([&] { LoadSolverConfig(folder / "solver.prototxt"); });
  EXPECT_CONTAINS(error, (folder / "solver.prototxt") + ":5: snapshot_prefix: ");
  EXPECT_CONTAINS(error, folder / "taken");
}

TEST(SolverConfigFile, RefusesFilesThatAreMissingEmptyOrNoSolver) {
  test::TempDir folder;
  EXPECT_EQ(test::ErrorOf([&] { LoadSolverConfig(folder / "gone"); }),
            (folder / "gone") + ": No such file or directory");
  test::WriteFile(folder / "empty", "");
  EXPECT_CONTAINS(test::ErrorOf([&] { LoadSolverConfig(folder / "empty"); }), "is empty");
  test::WriteFile(folder / "net", kNetText);
  EXPECT_CONTAINS(test::ErrorOf([&] { LoadSolverConfig(folder / "net"); }),
                  "net: is a NetParameter, expected a SolverParameter");
}

}  // namespace
}  // namespace millrace
