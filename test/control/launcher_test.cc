#include "control/launch/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "test/support/eventually.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NodeCommand Shell(const std::string& node, const std::string& script) {
  return {.node = node, .command = {"sh", "-c", script}};
}

// A control that asks for a stop whenever `wants_stop` says so.
class ControlBy : public RunControl {
 public:
  explicit ControlBy(std::function<bool()> wants_stop) : wants_stop_(std::move(wants_stop)) {}
  RunCommand Next(int) override { return wants_stop_() ? RunCommand::kStop : RunCommand::kNone; }

 private:
  const std::function<bool()> wants_stop_;
};

class LauncherTest : public testing::Test {
 protected:
  int Launch(
      std::vector<NodeCommand> commands, LauncherConfig config = {.restart_seconds = 0.01},
      std::function<bool()> wants_stop = [] { return false; }) {
    ControlBy control(std::move(wants_stop));
    return Launcher(config, std::move(commands), &control, &clock_,
                    [this](bool is_error, const std::string& line) {
                      (is_error ? errors_ : output_).push_back(line);
                    })
        .Run();
  }

  const SteadyClock clock_;
  std::vector<std::string> output_, errors_;
  TempDir folder_;
};

TEST_F(LauncherTest, NamesTheNodeOfEachLine) {
  EXPECT_EQ(Launch({Shell("a", "echo one; echo two; printf three"),
                    Shell("long", "echo error >&2; printf '\\n\\n'")}),
            0);
  std::sort(output_.begin(), output_.end());
  EXPECT_THAT(output_,
              ElementsAre("a    | one", "a    | three", "a    | two", "long | ", "long | "));
  EXPECT_THAT(errors_, ElementsAre("long | error"));
}

TEST_F(LauncherTest, ShowsAllOfALongOutput) {
  EXPECT_EQ(Launch({Shell("a", "seq 100000")}), 0);
  ASSERT_EQ(output_.size(), 100'000u);
  EXPECT_EQ(output_.front(), "a | 1");
  EXPECT_EQ(output_.back(), "a | 100000");
}

TEST_F(LauncherTest, StartsAgainWhatFails) {
  const std::string count = "echo >> " + (folder_ / "starts") + "; test $(wc -l < " +
                            (folder_ / "starts") + ") -gt 2 || kill -9 $$";
  EXPECT_EQ(Launch({Shell("a", count), Shell("b", "true")}), 0);
  EXPECT_EQ(ReadFile(folder_ / "starts"), "\n\n\n");
  EXPECT_THAT(
      errors_,
      ElementsAre("launch: node a was ended by signal 9; starts again in 0.01 s (1 of 3 times)",
                  "launch: node a was ended by signal 9; starts again in 0.02 s (2 of 3 times)"));
}

TEST_F(LauncherTest, GivesUpAfterTheLimit) {
  EXPECT_EQ(Launch({Shell("a", "echo x; exit 3"), Shell("b", "true")},
                   {.restarts = 1, .restart_seconds = 0.01}),
            1);
  EXPECT_THAT(output_, ElementsAre("a | x", "a | x"));
  EXPECT_THAT(errors_, ElementsAre(HasSubstr("a ended with status 3; starts again"),
                                   "launch: node a ended with status 3 and is not started again, "
                                   "after 1 times"));
}

// The first stop lets nodes end by themselves, and nothing is started again.
TEST_F(LauncherTest, StopsAllNodes) {
  // As where a shell has started the launcher in the background.
  const auto before = signal(SIGINT, SIG_IGN);
  bool was_asked = false;
  const auto once = [&] {
    const bool both = output_.size() == 2 && !was_asked;
    was_asked |= both;
    return both;
  };
  const std::string script = "trap 'echo bye; exit 0' INT; echo here; while :; do sleep 0.01; done";
  EXPECT_EQ(Launch({Shell("a", script), Shell("b", script)}, {}, once), 0);
  signal(SIGINT, before);
  std::sort(output_.begin(), output_.end());
  EXPECT_THAT(output_, ElementsAre("a | bye", "a | here", "b | bye", "b | here"));
}

// A node over ssh is told by the end of its input, so that its last lines and its status come back.
TEST_F(LauncherTest, StopsByTheEndOfTheInput) {
  bool was_asked = false;
  const auto once = [&] {
    const bool here = output_.size() == 1 && !was_asked;
    was_asked |= here;
    return here;
  };
  NodeCommand command = Shell("a", "echo here; cat; echo bye; exit 3");
  command.stops_by_input = true;
  EXPECT_EQ(Launch({command}, {}, once), 1);
  EXPECT_THAT(output_, ElementsAre("a | here", "a | bye"));
  EXPECT_THAT(errors_,
              ElementsAre(HasSubstr("stopping all nodes"), "launch: node a ended with status 3"));
}

// A node that does not end is killed by the second stop, or after a while.
TEST_F(LauncherTest, KillsWhatDoesNotStop) {
  const std::string script = "trap '' INT; echo here; while :; do sleep 0.01; done";
  const auto running = [&] { return output_.size() == 1; };
  EXPECT_EQ(Launch({Shell("a", script)}, {}, running), 1);
  EXPECT_THAT(errors_, ElementsAre(HasSubstr("stopping all nodes"), "launch: killing all nodes",
                                   "launch: node a was ended by signal 9"));
  output_.clear();
  errors_.clear();
  bool was_asked = false;
  const auto once = [&] {
    const bool asks = running() && !was_asked;
    was_asked |= asks;
    return asks;
  };
  EXPECT_EQ(Launch({Shell("a", script)}, {.stop_seconds = 0.1}, once), 1);
  EXPECT_THAT(errors_, ElementsAre(HasSubstr("stopping all nodes"),
                                   "launch: killing the nodes that still run", testing::_));
}

TEST_F(LauncherTest, NamesAProgramThatIsMissing) {
  EXPECT_EQ(ErrorOf([&] { Launch({{.node = "a", .command = {"/nonexistent/program"}}}); }),
            "/nonexistent/program cannot be started: No such file or directory");
}

TEST(ChildProcessTest, EndsWithItsOwner) {
  TempDir folder;
  const std::string script = "echo $$ > " + (folder / "new") + "; mv " + (folder / "new") + " " +
                             (folder / "pid") + "; sleep 1000";
  int pid = 0;
  {
    ChildProcess child({"sh", "-c", script});
    ASSERT_TRUE(Eventually([&] { return FileExists(folder / "pid"); }));
    pid = std::stoi(ReadFile(folder / "pid"));
    EXPECT_EQ(kill(pid, 0), 0);
    EXPECT_FALSE(child.Ended());
  }
  EXPECT_NE(kill(pid, 0), 0);
}

class NodeCommandsTest : public testing::Test {
 protected:
  NodeCommandsTest() {
    WriteFile(folder_ / "t",
              "name: 'pair' node { name: 'a' address: '10.0.0.1' } node { name: 'b' address: "
              "'10.0.0.2' } segment { name: 'lan' transport: 'udp' }");
    request_ = {.topology = folder_ / "t",
                .arguments = {"train", "--solver=a b"},
                .program = "/bin/millrace",
                .folder = "/home/it's"};
  }
  CommandResult RunFirst() {
    std::vector<std::string> command = Commands()[0].command;
    command.insert(command.begin(), "/usr/bin/env");
    return test::Run(command);
  }
  std::vector<NodeCommand> Commands() {
    return NodeCommands(request_, "lab",
                        [](const std::string& host) { return host == "10.0.0.1"; });
  }

  TempDir folder_;
  LaunchRequest request_;
  // A standard input that ends once the program has made the file `here`.
  const std::string until_here_ =
      "while ! test -e " + (folder_ / "here") + "; do sleep 0.01; done | ";
};

TEST_F(NodeCommandsTest, StartProcessesHereAndOverSsh) {
  const auto commands = Commands();
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_THAT(commands[0].command, ElementsAre("/bin/millrace", "train", "--solver=a b",
                                               "--topology=" + request_.topology, "--node=a"));
  EXPECT_THAT(commands[1].command,
              ElementsAre("ssh", "-o", "BatchMode=yes", "10.0.0.2", testing::_));
}

// What ssh gives to the other machine's shell runs the program in the folder, and ends it when the
// connection does.
TEST_F(NodeCommandsTest, RunThereWhatTheyRunHere) {
  request_.method = LaunchMethod::kSsh;
  request_.folder = folder_.path();
  request_.program = folder_ / "it's";
  WriteFile(request_.program,
            "#!/bin/sh\ntrap 'echo stopped; exit 4' TERM\n: > here\npwd\nfor x; do echo \"<$x>\"; "
            "done\ntest -n \"$QUICK\" || while :; do sleep 0.01; done\nexit 7\n");
  ASSERT_EQ(test::Run({"/bin/chmod", "+x", request_.program}).status, 0);
  const std::string remote = Commands()[1].command.back();
  // A standard input that neither ends nor gives anything.
  const CommandResult quick =
      test::Run({"/bin/sh", "-c",
                 StrCat("QUICK=1; export QUICK; mkfifo ", folder_ / "in", "; exec 9<>",
                        folder_ / "in", "; (", remote, ") <&9")});
  EXPECT_EQ(quick.output, folder_.path() + "\n<train>\n<--solver=a b>\n<--topology=" +
                              request_.topology + ">\n<--node=b>\n");
  EXPECT_EQ(quick.status, 7) << quick.errors;
  ASSERT_EQ(unlink((folder_ / "here").c_str()), 0);  // of the quick run
  const CommandResult ended = test::Run({"/bin/sh", "-c", until_here_ + remote});
  EXPECT_EQ(ended.status, 4) << ended.errors;
  EXPECT_CONTAINS(ended.output, "stopped");
}

// The nodes of an elastic run: on hosts, or processes of this machine.
TEST_F(NodeCommandsTest, OfAnElasticRunGetTheRegistryAndTheirAddress) {
  request_.topology = "";
  request_.elastic.rendezvous = {.url = "etcd://10.0.0.9:2379/run", .nodes = "2:4"};
  const std::string url = "--rendezvous=etcd://10.0.0.9:2379/run";
  request_.elastic.hosts = {"10.0.0.1", "other"};
  auto commands = Commands();
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[1].node, "other");
  EXPECT_THAT(commands[0].command, ElementsAre("/bin/millrace", "train", "--solver=a b", url,
                                               "--nodes=2:4", "--rendezvous_address=10.0.0.1"));
  EXPECT_THAT(commands[1].command, ElementsAre("ssh", "-o", "BatchMode=yes", "other",
                                               testing::Not(HasSubstr("rendezvous_address"))));
  request_.elastic.hosts = {};
  request_.elastic.processes = 1;
  request_.topology = "segments";
  request_.elastic.rendezvous.user = "me";
  request_.elastic.rendezvous.password_file = "secret";
  commands = Commands();
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_THAT(commands[0].command,
              ElementsAre("/bin/millrace", "train", "--solver=a b", url, "--nodes=2:4",
                          "--topology=segments", "--rendezvous_user=me",
                          "--rendezvous_password_file=secret"));
  // By default as many as the run begins with.
  request_.method = LaunchMethod::kLocal;
  request_.elastic = {.rendezvous = {.url = "etcd://127.0.0.1:2379/run", .nodes = "3:4"}};
  commands = Commands();
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_EQ(commands[2].node, "127.0.0.3");
  EXPECT_EQ(commands[2].command.back(), "--rendezvous_address=127.0.0.3");
}

TEST_F(NodeCommandsTest, OfAnElasticRunNeedAnAddressEach) {
  const auto error = [this](const std::string& url, ElasticNodes elastic) {
    elastic.rendezvous = {.url = url, .nodes = "2:4"};
    request_.elastic = elastic;
    return ErrorOf([&] { Commands(); });
  };
  const std::string here = "etcd://127.0.0.1:2379/run", there = "etcd://10.0.0.9:2379/run";
  EXPECT_CONTAINS(error(there, {}), "--processes=2: the nodes of a machine need an address each");
  EXPECT_CONTAINS(error(here, {.processes = 5}), "--processes=5: expected 1 to 4");
  EXPECT_CONTAINS(error(here, {.processes = -1}), "--processes=-1: expected 1 to 4");
  EXPECT_CONTAINS(error(there, {.hosts = {"a", "a"}}), "--hosts: \"a\" is given twice");
  EXPECT_CONTAINS(error(there, {.hosts = {"a:1"}}), "--hosts: \"a:1\" given, expected an IP");
  EXPECT_CONTAINS(error("etcd://h/run", {}), "\"h\" given, expected HOST:PORT");
  request_.method = LaunchMethod::kNamespaces;
  EXPECT_CONTAINS(error(here, {}), "--by=namespaces: expected a topology");
  request_.method = LaunchMethod::kSsh;
  EXPECT_CONTAINS(error(here, {.processes = 1}), "--by=ssh: expected --hosts");
}

// A program that does not end when it is told to is killed there, too.
TEST_F(NodeCommandsTest, KillThereWhatDoesNotStop) {
  request_.method = LaunchMethod::kSsh;
  request_.folder = folder_.path();
  request_.program = folder_ / "stubborn";
  request_.stop_seconds = 0.1;
  WriteFile(request_.program,
            "#!/bin/sh\ntrap 'echo told' TERM\n: > here\nwhile :; do sleep 0.01; done\n");
  ASSERT_EQ(test::Run({"/bin/chmod", "+x", request_.program}).status, 0);
  const std::string remote = Commands()[1].command.back();
  const CommandResult ended = test::Run({"/bin/sh", "-c", until_here_ + remote});
  EXPECT_EQ(ended.status, 137) << ended.errors;
  EXPECT_EQ(ended.output, "told\n");
}

TEST_F(NodeCommandsTest, UseAllDevices) {
  request_.method = LaunchMethod::kLocal;
  request_.all_devices = true;
  request_.program = "/bin/echo";  // which answers a query of devices, so there are GPUs
  const CommandResult result = RunFirst();
  EXPECT_EQ(result.output,
            "train --solver=a b --topology=" + request_.topology + " --node=a --gpu=all\n");
  request_.program = folder_ / "none";
  WriteFile(request_.program, "#!/bin/sh\ntest \"$1\" != device_query && echo \"$@\"\n");
  ASSERT_EQ(test::Run({"/bin/chmod", "+x", request_.program}).status, 0);
  const long processors = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN) - 1);
  EXPECT_CONTAINS(RunFirst().output, StrCat(" --cpu=", processors, "\n"));
}

TEST_F(NodeCommandsTest, RefuseWhatCannotBeStarted) {
  request_.arguments.clear();
  EXPECT_CONTAINS(ErrorOf([&] { Commands(); }), "expected one after --");
  EXPECT_CONTAINS(ErrorOf([] { ParseLaunchMethod("rsh"); }), "--by=rsh: expected auto, local");
  WriteFile(folder_ / "lo",
            "name: 'p' node { name: 'a' address: '127.0.0.1' } node { name: 'b' "
            "address: '127.0.0.2' } segment { name: 'lan' transport: 'udp' }");
  if (geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  EXPECT_CONTAINS(ErrorOf([&] { NamespaceLab(folder_ / "lo", "millrace-test"); }),
                  "expected an IPv4 address that is not loopback");
}

TEST(IsAddressOfThisMachineTest, KnowsItsOwn) {
  EXPECT_TRUE(IsAddressOfThisMachine("127.0.0.1"));
  EXPECT_TRUE(IsAddressOfThisMachine("localhost"));
  EXPECT_TRUE(IsAddressOfThisMachine("::1"));
  EXPECT_FALSE(IsAddressOfThisMachine("192.0.2.1"));  // for documentation only
}

}  // namespace
}  // namespace millrace::test
