// Commands, flags and arguments.
#include <sstream>

#include "millrace/version.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

TEST(CommandLine, HelpListsTheCommands) {
  const CommandResult result = Millrace({"help"});
  EXPECT_EQ(result.status, 0);
  for (const char* command :
       {"train", "test", "time", "convert_mnist_data", "compute_image_mean"}) {
    EXPECT_CONTAINS(result.output, command);
  }
  EXPECT_EQ(Millrace({"--help"}).output, result.output);
  EXPECT_EQ(Millrace({"-h"}).output, result.output);
}

TEST(CommandLine, VersionIsThatOfTheLibrary) {
  const std::string version = StrCat("millrace version ", Version(), "\n");
  EXPECT_EQ(Millrace({"--version"}).output, version);
  EXPECT_EQ(Millrace({"-version"}).output, version);
  EXPECT_EQ(Millrace({"train", "--version"}).output, version);
}

TEST(CommandLine, HelpOfACommandListsItsFlags) {
  const CommandResult result = Millrace({"train", "--help"});
  EXPECT_EQ(result.status, 0);
  for (const char* flag : {"--solver", "--cpu", "--snapshot", "--shm", "--sighup_effect"}) {
    EXPECT_CONTAINS(result.output, flag);
  }
  EXPECT_CONTAINS(result.output, "usage: millrace train [--flag=value ...]\n");
  EXPECT_CONTAINS(result.output, "example: millrace train --solver=");
  EXPECT_CONTAINS(result.output, "--cpu  (int32, default 1)\n");
  EXPECT_CONTAINS(result.output, "ignored, as by Caffe's command: --model, --phase, --iterations.");
  for (const std::vector<std::string>& form : std::vector<std::vector<std::string>>{
           {"help", "train"}, {"train", "-help"}, {"train", "-h"}, {"-help", "train"}}) {
    EXPECT_EQ(Millrace(form).output, result.output) << form[0];
  }
}

TEST(CommandLine, EveryCommandHasAPageThatFitsTheScreen) {
  for (const std::string& command : Matches(Millrace({"help"}).output, R"(\n  (\w+) +\w)")) {
    const CommandResult result = Millrace({"help", command});
    EXPECT_EQ(result.status, 0);
    EXPECT_CONTAINS(result.output, "usage: millrace " + command);
    EXPECT_CONTAINS(result.output, "--log_dir");
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), line.starts_with("example: ") ? 120u : 100u) << line;
    }
  }
  ExpectOneLine(Millrace({"help", "trian"}), {"there is no command 'trian'"});
  ExpectOneLine(Millrace({"help", "train", "test"}), {"2 arguments given"});
}

TEST(CommandLine, TransportsAreListedWithWhatTheyNeed) {
  const CommandResult result = Millrace({"transports"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output,
                  "packet: raw Ethernet frames on one network without routers\n"
                  "  privilege: CAP_NET_RAW\n"
                  "  topology: node.interface, node.mac\n");
  EXPECT_CONTAINS(result.output, "  topology: node.address, segment.port\n");
  EXPECT_CONTAINS(result.output, "verbs: ");
  ExpectOneLine(Millrace({"transports", "udp"}), {"1 arguments given"});
}

// As for solver_mode: GPU, in any build.
TEST(CommandLine, WithoutGpusTheFlagGivesAWarningAndUsesAProcessor) {
  const CommandResult query = Millrace({"device_query"});
  if (query.status == 0) {
    EXPECT_CONTAINS(query.output, "GPU 0: ");
    GTEST_SKIP() << "this machine has GPUs";
  }
  EXPECT_EQ(query.status, 1);
  ExpectOneLine(query, {"no GPU"});
  ExpectOneLine(Millrace({"device_query", "-gpu", "0"}), {"--gpu=0: ", "no GPU"});
  Workspace work;
  const std::string solver = "--solver=" + work.Write("run", Workspace::Solver(2));
  const std::string model = "--model=" + (work / "net.prototxt");
  ExpectOneLine(Millrace({"train", solver, "--gpu=zero"}), {"--gpu=zero: expected numbers"});
  ExpectOneLine(Millrace({"train", solver, "--gpu_max_mbps=-1"}), {"--gpu_max_mbps=-1: expected"});
  ExpectOneLine(Millrace({"train", solver, "--cuda_graphs=yes"}),
                {"--cuda_graphs=yes: expected auto, on or off"});
  ExpectOneLine(Millrace({"train", solver, "--precision=fp16"}), {"--precision=fp16: expected"});
  ExpectOneLine(Millrace({"train", solver, "--gpu_measure_seconds=-1"}),
                {"--gpu_measure_seconds=-1: expected at least 0"});
  ExpectOneLine(Millrace({"train", solver, "--gpu=0", "--cpu=0"}),
                {"--cpu=0: expected at least 1"});
  EXPECT_TRUE(work.FilesWith("run_iter").empty());

  const std::string warning = R"(W\d{4} .*\] --gpu=0, but this .* GPU.*; using the CPU\n)";
  const CommandResult one = Millrace({"train", solver, "--gpu=0"});
  EXPECT_EQ(one.status, 0) << one.errors;
  EXPECT_EQ(Matches(one.errors, warning, 0).size(), 1u) << one.errors;
  EXPECT_CONTAINS(one.errors, "] Use CPU.\n");
  EXPECT_CONTAINS(one.errors, "1 solver on private weights");
  const CommandResult two = Millrace({"train", solver, "-gpu", "all", "--cpu=2"});
  EXPECT_EQ(two.status, 0) << two.errors;
  EXPECT_CONTAINS(two.errors, "--gpu=all, but this ");
  EXPECT_CONTAINS(two.errors, "2 solvers on private weights");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"time", model, "--gpu=0", "--iterations=1"},
           {"test", model, "--weights=" + work.Snapshot("run", 2) + ".caffemodel", "--gpu=0"}}) {
    const CommandResult result = Millrace(command);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(Matches(result.errors, warning, 0).size(), 1u) << result.errors;
  }
}

TEST(CommandLine, SolverModeGpuWithoutAGpuUsesAProcessorAndSaysSo) {
  if (Millrace({"device_query"}).status == 0) GTEST_SKIP() << "this machine has GPUs";
  Workspace work;
  caffe::SolverParameter solver = Workspace::Solver(2);
  solver.set_solver_mode(caffe::SolverParameter::GPU);
  const CommandResult result = Millrace({"train", "--solver=" + work.Write("run", solver)});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "solver_mode: GPU, but this ");
  EXPECT_CONTAINS(result.errors, "using the CPU");
}

TEST(CommandLine, NothingAtAllPrintsTheUsageAndFails) {
  const CommandResult result = Millrace({});
  EXPECT_EQ(result.status, 1);
  EXPECT_CONTAINS(result.errors, "usage: millrace");
}

TEST(CommandLine, AnUnknownCommandIsNamed) {
  ExpectOneLine(Millrace({"trian"}), {"there is no command 'trian'", "millrace help"});
  ExpectOneLine(Millrace({"--solver=x"}), {"no command is given", "millrace help"});
}

TEST(CommandLine, AnUnknownFlagIsNamedWithThoseThatThereAre) {
  ExpectOneLine(Millrace({"train", "--sovler=x"}), {"--sovler", "--solver"});
  // A flag of another command is rejected.
  ExpectOneLine(Millrace({"time", "--metrics=x"}), {"time has no flag --metrics", "--model"});
  ExpectOneLine(Millrace({"test", "-metrics=x"}), {"test has no flag --metrics"});
  // It may have a value, which is not a command then.
  ExpectOneLine(Millrace({"-sovler", "x", "train"}), {"there is no flag --sovler"});
  ExpectOneLine(Millrace({"-sovler=x", "train"}), {"train has no flag --sovler", "--solver"});
}

TEST(CommandLine, FlagsOfCaffesThatACommandDoesNotUseGiveAWarning) {
  Workspace work;
  const std::string solver = work.Write("run", Workspace::Solver(2));
  const CommandResult result = Millrace(
      {"train", "-solver", solver, "-phase", "TEST", "-iterations=9", "-model", "net.prototxt"});
  EXPECT_EQ(result.status, 0) << result.errors;
  for (const char* flag : {"--phase=TEST", "--iterations=9", "--model=net.prototxt"}) {
    EXPECT_CONTAINS(result.errors, StrCat(flag, ": train ignores this flag, as Caffe does\n"));
  }
  EXPECT_CONTAINS(result.output, "model saved: " + work.Snapshot("run", 2));
}

TEST(CommandLine, StrayArgumentsAreRefused) {
  ExpectOneLine(Millrace({"train", "--solver=x", "lenet.prototxt"}), {"1 arguments given"});
  ExpectOneLine(Millrace({"convert_mnist_data", "a", "b"}), {"2 arguments given", "image file"});
  ExpectOneLine(Millrace({"compute_image_mean", "a", "b", "c"}), {"3 arguments given"});
  ExpectOneLine(Millrace({"compute_image_mean"}), {"0 arguments given"});
  ExpectOneLine(Millrace({"convert_imageset", "a", "b"}), {"2 arguments given", "root folder"});
}

TEST(CommandLine, MissingFlagsAreNamed) {
  ExpectOneLine(Millrace({"train"}), {"--solver is missing"});
  ExpectOneLine(Millrace({"time"}), {"--model is missing"});
  ExpectOneLine(Millrace({"test"}), {"--model is missing"});
  ExpectOneLine(Millrace({"test", "--model=m"}), {"--weights", "--shm"});
}

TEST(CommandLine, ValuesThatAreNoneAreNamedWithTheirFlag) {
  ExpectOneLine(Millrace({"train", "--solver=x", "--cpu=0"}), {"--cpu=0", "at least 1"});
  ExpectOneLine(Millrace({"train", "--solver=x", "--cpu=-2"}), {"--cpu=-2", "at least 1"});
  ExpectOneLine(Millrace({"train", "--solver=x", "--cpu=abc"}), {"cpu", "abc"});
  ExpectOneLine(Millrace({"train", "--solver=x", "--cpu"}), {"cpu"});
  ExpectOneLine(Millrace({"train", "--solver=x", "--shard=2/2"}), {"--shard=2/2", "i < n"});
  ExpectOneLine(Millrace({"train", "--solver=x", "--shard=-1/2"}), {"--shard=-1/2"});
  ExpectOneLine(Millrace({"train", "--solver=x", "--shard=0/-1"}), {"--shard=0/-1", "i < n"});
  ExpectOneLine(Millrace({"train", "--solver=x", "--shard=1"}), {"--shard=1"});
  ExpectOneLine(Millrace({"train", "--solver=x", "--sigint_effect=halt"}),
                {"--sigint_effect=halt", "stop, snapshot or none"});
  ExpectOneLine(Millrace({"time", "--model=m", "--iterations=0"}), {"--iterations=0"});
  ExpectOneLine(Millrace({"time", "--model=m", "--iterations=many"}), {"iterations", "many"});
  ExpectOneLine(Millrace({"test", "--model=m", "--weights=w", "--iterations=-1"}),
                {"--iterations=-1"});
  ExpectOneLine(Millrace({"test", "--model=m", "--weights=w", "--shm=s"}), {"--weights", "--shm"});
  ExpectOneLine(Millrace({"convert_mnist_data", "--backend=rocksdb", "a", "b", "c"}),
                {"--backend=rocksdb", "lmdb or leveldb"});
}

TEST(CommandLine, OneDashWorksAsWellAsTwo) {
  Workspace work;
  const std::string solver = work.Write("run", Workspace::Solver(2));
  const CommandResult one = Millrace({"train", "-solver=" + solver, "-cpu=1"});
  const CommandResult two = Millrace({"train", "--solver=" + solver, "--cpu=1"});
  const CommandResult apart = Millrace({"train", "--solver", solver, "--cpu", "1"});
  const CommandResult before = Millrace({"-solver", solver, "--cpu=1", "train"});
  const CommandResult hyphens = Millrace({"--sigint-effect=none", "-sighup-effect", "stop", "train",
                                          "-gpu-max-mbps=5", "-solver=" + solver});
  EXPECT_EQ(one.status, 0) << one.errors;
  EXPECT_EQ(two.status, 0) << two.errors;
  EXPECT_EQ(apart.status, 0) << apart.errors;
  EXPECT_EQ(one.output, "model saved: " + work.Snapshot("run", 2) + ".caffemodel\n");
  EXPECT_EQ(one.output, two.output);
  EXPECT_EQ(one.output, apart.output);
  EXPECT_EQ(before.output, one.output) << before.errors;
  EXPECT_EQ(hyphens.output, one.output) << hyphens.errors;
}

TEST(CommandLine, LastLinesOfSeveralTestNetsNameTheirNets) {
  Workspace work;
  caffe::SolverParameter two = Workspace::Tested(Workspace::Solver(4), 2);
  const CommandResult one = Millrace({"train", "--solver=" + work.Write("one", two)});
  EXPECT_EQ(one.output.find("test net #"), std::string::npos) << one.output;
  two.add_test_iter(2);
  for (const char* stage : {"first", "second"}) two.add_test_state()->add_stage(stage);
  const CommandResult result = Millrace({"train", "--solver=" + work.Write("two", two)});
  ASSERT_EQ(result.status, 0) << result.errors;
  for (const char* net : {"0", "1"}) {
    EXPECT_EQ(
        Matches(result.output, StrCat("\n?(test net #", net, ": accuracy = [0-9.]+\n)")).size(), 1u)
        << result.output;
  }
}

TEST(CommandLine, BooleanFlagsTakeNoSecondArgumentAndMayBeNegated) {
  Workspace work;
  const std::string model = "-model=" + work / "net.prototxt";
  EXPECT_EQ(Millrace({"-json", "time", model, "-iterations", "1"}).output.substr(0, 1), "{");
  EXPECT_NE(Millrace({"-nojson", "time", model, "-iterations", "1"}).output.substr(0, 1), "{");
}

TEST(CommandLine, CommandsMayHaveHyphens) {
  EXPECT_EQ(Millrace({"help", "device-query"}).output, Millrace({"help", "device_query"}).output);
  ExpectOneLine(Millrace({"convert-mnist-data", "a", "b"}), {"2 arguments given", "image file"});
}

TEST(CommandLine, AFileMayHoldTheFlags) {
  Workspace work;
  const std::string solver = work.Write("run", Workspace::Solver(2));
  WriteFile(work / "flags", "--solver=" + solver + "\n--cpu=2\n");
  const CommandResult result = Millrace({"train", "--flagfile=" + work / "flags"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "2 solvers on private weights");
}

// As Caffe, adds them to the train_state of the solver file.
TEST(CommandLine, TrainTakesStagesAndLevelForTheTrainNet) {
  Workspace work;
  SmallNet net = work.Net();
  net.more_layers =
      "layer { name: 'deep' type: 'ReLU' bottom: 'scores' top: 'deep' "
      "include { min_level: 2 stage: 'a' stage: 'b' } }\n";
  work.WriteNet(net);
  caffe::SolverParameter solver = Workspace::Solver(2);
  solver.set_display(1);
  solver.mutable_train_state()->add_stage("a");
  solver.mutable_train_state()->set_level(2);
  const std::string path = work.Write("run", solver);
  const auto has_deep = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> command = {"train", "-solver", path};
    command.insert(command.end(), flags.begin(), flags.end());
    const CommandResult result = Millrace(command);
    EXPECT_EQ(result.status, 0) << result.errors;
    return result.errors.find(": deep = ") != std::string::npos;
  };
  EXPECT_FALSE(has_deep({}));
  EXPECT_TRUE(has_deep({"-stage", "b"}));
  EXPECT_TRUE(has_deep({"-stage", "c,b"}));
  EXPECT_FALSE(has_deep({"-stage", "b", "-level", "1"}));
  EXPECT_TRUE(has_deep({"-stage", "b", "-level", "3"}));
}

// Other names in the file than in the net, as in finetuning.
TEST(CommandLine, LayersThatGetNoSavedWeightsAreNamed) {
  Workspace work;
  const std::string solver = work.Write("run", Workspace::Solver(2));
  ASSERT_EQ(Millrace({"train", "-solver", solver}).status, 0);
  const std::string weights = "-weights=" + work.Snapshot("run", 2) + ".caffemodel";
  const std::string model = "-model=" + work / "net.prototxt";
  const std::string part = "that got no saved weights";
  for (const char* command : {"test", "time"}) {
    const CommandResult all = Millrace({command, model, weights, "-iterations=1"});
    EXPECT_EQ(all.status, 0) << all.errors;
    EXPECT_CONTAINS(all.errors, "loaded the weights of 2 layers");
    EXPECT_EQ(all.errors.find(part), std::string::npos) << all.errors;
  }
  std::string text = work.Net().Text();
  for (size_t at = 0; (at = text.find("name: 'scores'", at)) != std::string::npos; ++at) {
    text.replace(at, 14, "name: 'new_scores'");
  }
  work.WriteNet(text);
  const std::string line =
      "W\\d{4} .*Layers of net 'small' that got no saved weights and keep their initial ones: "
      "'new_scores' \\(InnerProduct\\)\n";
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"test", model, weights, "-iterations=1"},
                                             {"time", model, weights, "-iterations=1"},
                                             {"train", "-solver", solver, weights}}) {
    const CommandResult result = Millrace(command);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(Matches(result.errors, line, 0).size(), 1u) << result.errors;
  }
}

TEST(CommandLine, PhaseIsTrainOrTest) {
  Workspace work;
  ExpectOneLine(Millrace({"time", "--model=" + work / "net.prototxt", "--phase=VALIDATE"}),
                {"--phase=VALIDATE", "TRAIN or TEST"});
}

}  // namespace
}  // namespace millrace::test
