// Commands, flags and arguments.
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
}

TEST(CommandLine, HelpOfACommandListsItsFlags) {
  const CommandResult result = Millrace({"train", "--help"});
  EXPECT_EQ(result.status, 0);
  for (const char* flag : {"--solver", "--cpu", "--snapshot", "--shm", "--sighup_effect"}) {
    EXPECT_CONTAINS(result.output, flag);
  }
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

// On a machine without GPUs: one line in any build, and no silent run on processors.
TEST(CommandLine, GpusThatAreNotThereAreAnError) {
  const CommandResult query = Millrace({"device_query"});
  if (query.status == 0) {
    EXPECT_CONTAINS(query.output, "GPU 0: ");
    GTEST_SKIP() << "this machine has GPUs";
  }
  EXPECT_EQ(query.status, 1);
  ExpectOneLine(query, {"no GPU"});
  Workspace work;
  const std::string solver = "--solver=" + work.Write("run", Workspace::Solver(2));
  const std::string model = "--model=" + (work / "net.prototxt");
  ExpectOneLine(Millrace({"train", solver, "--gpu=0"}), {"--gpu=0: ", "no GPU"});
  ExpectOneLine(Millrace({"train", solver, "-gpu", "all", "--cpu=2"}), {"--gpu=all: ", "no GPU"});
  ExpectOneLine(Millrace({"time", model, "--gpu=0"}), {"--gpu=0: ", "no GPU"});
  ExpectOneLine(Millrace({"test", model, "--weights=x.caffemodel", "--gpu=0"}),
                {"--gpu=0: ", "no GPU"});
  ExpectOneLine(Millrace({"train", solver, "--gpu=zero"}), {"--gpu=zero: expected numbers"});
  ExpectOneLine(Millrace({"train", solver, "--gpu_max_mbps=-1"}), {"--gpu_max_mbps=-1: expected"});
  EXPECT_TRUE(work.FilesWith("run_iter").empty());
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
}

TEST(CommandLine, AnUnknownFlagIsNamedWithThoseThatThereAre) {
  ExpectOneLine(Millrace({"train", "--sovler=x"}), {"--sovler", "--solver"});
  // A flag of another command is rejected.
  ExpectOneLine(Millrace({"time", "--solver=x"}), {"time has no flag --solver", "--model"});
  ExpectOneLine(Millrace({"test", "-metrics=x"}), {"test has no flag --metrics"});
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
  EXPECT_EQ(one.status, 0) << one.errors;
  EXPECT_EQ(two.status, 0) << two.errors;
  EXPECT_EQ(apart.status, 0) << apart.errors;
  EXPECT_EQ(one.output, "model saved: " + work.Snapshot("run", 2) + ".caffemodel\n");
  EXPECT_EQ(one.output, two.output);
  EXPECT_EQ(one.output, apart.output);
}

TEST(CommandLine, PhaseIsTrainOrTest) {
  Workspace work;
  ExpectOneLine(Millrace({"time", "--model=" + work / "net.prototxt", "--phase=VALIDATE"}),
                {"--phase=VALIDATE", "TRAIN or TEST"});
}

}  // namespace
}  // namespace millrace::test
