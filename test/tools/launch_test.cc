// millrace launch with real nodes on one machine.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "test/support/etcd_server.h"
#include "test/support/free_port.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class Launch : public testing::Test {
 protected:
  // Writes a topology of two nodes at these addresses, whose node a has a control service.
  void WriteTopology(const std::string& a, const std::string& b) {
    WriteFile(work_ / "topology.prototxt",
              StrCat("name: 'launch-", getpid(), "' node { name: 'a' address: '", a, "' control: '",
                     control_, "' } node { name: 'b' address: '", b,
                     "' } segment { name: 'lan' transport: 'udp' port: ", FreePort(), " }"));
  }
  std::vector<std::string> LaunchCommand(const std::vector<std::string>& flags,
                                         const caffe::SolverParameter& solver) {
    std::vector<std::string> arguments = {"launch", "--topology=" + (work_ / "topology.prototxt")};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), {"--", "train", "--solver=" + work_.Write("run", solver)});
    return Command(arguments);
  }

  // Kills the child of `launch` that has this argument.
  static void KillChild(const Process& launch, const std::string& argument) {
    const CommandResult killed =
        test::Run({"/bin/sh", "-c",
                   StrCat("for p in $(cat /proc/", launch.pid(), "/task/", launch.pid(),
                          "/children); do tr '\\0' '\\n' < /proc/$p/cmdline | grep -qx -e ",
                          argument, " && kill -9 $p; done; true")});
    EXPECT_EQ(killed.errors, "");
  }

  Workspace work_;
  const std::string control_ = StrCat("127.0.0.1:", FreePort());
};

// A node that is killed is started again and joins the run; a stop ends both with the run saved.
TEST_F(Launch, StartsAgainWhatIsKilledAndStopsAllTogether) {
  WriteTopology("127.0.0.1", "127.0.0.2");
  Process launch(LaunchCommand({}, Workspace::Solver(100'000'000)));
  ASSERT_TRUE(WaitForLog(launch, "a | ")) << launch.ErrorsSoFar();
  ASSERT_TRUE(Eventually([&] {
    return Matches(launch.ErrorsSoFar(), "([ab]) [|] .*Joined the run at iteration").size() == 1;
  })) << launch.ErrorsSoFar();
  KillChild(launch, "--node=b");
  ASSERT_TRUE(
      WaitForLog(launch, "node b was ended by signal 9; starts again in 1 s (1 of 3 times)"))
      << launch.ErrorsSoFar();
  ASSERT_TRUE(Eventually([&] {
    return Matches(launch.ErrorsSoFar(), "(b) [|] .*Joined the run at iteration").size() ==
           (Matches(launch.ErrorsSoFar(), "(b) [|] .*The run begins").empty() ? 2u : 1u);
  })) << launch.ErrorsSoFar();
  EXPECT_CONTAINS(Millrace({"ctl", "status", "--control=" + control_}).output, "node a of launch-");
  launch.Signal(SIGINT);
  const CommandResult result = launch.Wait();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "launch: stopping all nodes");
  EXPECT_CONTAINS(result.output, " | model saved: ");
}

// Three processes of this machine join one run by etcd. One that is killed is started again and
// joins, `ctl` finds them by etcd, and a stop ends all.
TEST_F(Launch, StartsTheNodesOfAnElasticRun) {
  const std::string reason = EtcdServer::WhyNot();
  if (!reason.empty()) GTEST_SKIP() << reason;
  EtcdServer etcd("127.0.0.1", FreePort());
  etcd.Start();
  WriteFile(work_ / "segments",
            StrCat("segment { name: 'lan' transport: 'udp' port: ", FreePort(), " }"));
  const std::string run = StrCat("--rendezvous=etcd://", etcd.endpoint(), "/run?lease=2");
  const auto ctl = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"ctl", run});
    return Millrace(arguments);
  };
  Process launch(
      Command({"launch", run, "--nodes=3:4", "--topology=" + (work_ / "segments"), "--", "train",
               "--solver=" + work_.Write("run", Workspace::Solver(100'000'000)), "--control=0"}));
  const auto joined = [&](const std::string& node) {
    return Matches(launch.ErrorsSoFar(),
                   "(" + node + ") [|] .*(Joined the run at iteration|The run begins)")
        .size();
  };
  ASSERT_TRUE(Eventually([&] { return joined("127.0.0.[123]") == 3; })) << launch.ErrorsSoFar();
  KillChild(launch, "--rendezvous_address=127.0.0.2");
  ASSERT_TRUE(WaitForLog(launch, "node 127.0.0.2 was ended by signal 9; starts again in 1 s"))
      << launch.ErrorsSoFar();
  ASSERT_TRUE(Eventually([&] { return joined("127.0.0.2") == 2; })) << launch.ErrorsSoFar();

  const std::string nodes = ctl({"nodes"}).output;
  const std::vector<std::string> names = Matches(nodes, "(n[0-3])  127[.]0[.]0[.]1:[0-9]+\n");
  EXPECT_GE(names.size(), 3u) << nodes;
  // The killed node is registered as long as its lease lasts.
  EXPECT_EQ(
      std::count_if(
          names.begin(), names.end(),
          [&](const std::string& name) {
            return Matches(ctl({"status", "--node=" + name}).output, "(iteration [1-9])").size() ==
                   1;
          }),
      3)
      << nodes;
  // Each node says which it is, and forwards to the others by name.
  const std::string service = Matches(nodes, "(127[.]0[.]0[.]1:[0-9]+)\n").front();
  EXPECT_EQ(Matches(Millrace({"ctl", "status", "--control=" + service}).output,
                    "^(node n[0-3] of run: training)")
                .size(),
            1u);
  const std::string forwards = Millrace({"ctl", "nodes", "--control=" + service}).output;
  EXPECT_EQ(Matches(forwards, "(this one)").size(), 1u) << forwards;
  EXPECT_EQ(
      std::count_if(names.begin(), names.end(),
                    [&](const std::string& name) {
                      const CommandResult other =
                          Millrace({"ctl", "status", "--control=" + service, "--node=" + name});
                      return Matches(other.output, "^(node " + name + " of run:)").size() == 1;
                    }),
      3)
      << forwards;
  ExpectOneLine(ctl({"status"}), {"ctl: expected --node with one of n"});
  ExpectOneLine(ctl({"status", "--node=n9"}), {"no registered node n9 has a control service"});
  ExpectOneLine(ctl({"status", "--control=8400"}), {"expected neither --topology nor --control"});
  launch.Signal(SIGINT);
  const CommandResult result = launch.Wait();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, " | model saved: ");
  // The run has ended with its last node.
  EXPECT_EQ(ctl({"nodes"}).output, "");
}

TEST_F(Launch, MakesNetworkNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  WriteTopology("10.97.3.1", "10.97.3.2");
  const CommandResult result =
      test::Run(LaunchCommand({"--by=namespaces"}, Workspace::Solver(300)));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "b | ");
  EXPECT_CONTAINS(result.errors, "Optimization Done.");
  EXPECT_EQ(Matches(result.errors, "(Joined the run at iteration|2 nodes are in sync)").size() > 0,
            true)
      << result.errors;
}

// Nodes at 127.0.0.1 and 127.0.0.2 over a real sshd, whose keys and settings are the test's own.
class LaunchBySsh : public Launch {
 protected:
  static constexpr const char* kServer = "/usr/sbin/sshd";

  void SetUp() override {
    for (const char* program : {kServer, "/usr/bin/ssh", "/usr/bin/ssh-keygen"}) {
      if (access(program, X_OK) != 0) {
        GTEST_SKIP() << "there is no " << program << " (tools/install-deps --ssh)";
      }
    }
    // Where a server of root keeps its processes that are not root's; Debian's service makes it.
    if (geteuid() == 0) made_ = mkdir("/run/sshd", 0755) == 0;
    for (const char* key : {"host", "user"}) {
      const CommandResult made =
          test::Run({"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", work_ / key});
      ASSERT_EQ(made.status, 0) << made.errors;
    }
    const int port = FreePort();
    WriteFile(work_ / "sshd_config",
              StrCat("Port ", port, "\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\nHostKey ",
                     work_ / "host", "\nAuthorizedKeysFile ", work_ / "user.pub",
                     "\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n"
                     "PermitRootLogin prohibit-password\nMaxStartups 100\n"));
    WriteFile(work_ / "ssh_config",
              StrCat("Host *\n  Port ", port, "\n  IdentityFile ", work_ / "user",
                     "\n  IdentitiesOnly yes\n  UserKnownHostsFile ", work_ / "known_hosts",
                     "\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n"));
    // ssh reads the settings of the user's home, wherever HOME is.
    WriteFile(work_ / "ssh",
              StrCat("#!/bin/sh\nexec /usr/bin/ssh -F ", work_ / "ssh_config", " \"$@\"\n"));
    ASSERT_EQ(chmod((work_ / "ssh").c_str(), 0755), 0);
    server_ = std::make_unique<Process>(
        std::vector<std::string>{kServer, "-D", "-e", "-f", work_ / "sshd_config"});
    CommandResult answer;
    const bool answers = Eventually([&] {
      answer = test::Run({work_ / "ssh", "-o", "BatchMode=yes", "127.0.0.2", "echo here"});
      return answer.output == "here\n";
    });
    ASSERT_TRUE(answers) << answer.errors << server_->ErrorsSoFar();
    WriteTopology("127.0.0.1", "127.0.0.2");
  }
  void TearDown() override {
    if (server_) {
      server_->Signal(SIGTERM);
      server_->Wait();
    }
    if (made_) rmdir("/run/sshd");
  }

  // The command, with the settings of the test for `ssh`.
  std::vector<std::string> WithSsh(std::vector<std::string> command) {
    command.insert(command.begin(),
                   {"/usr/bin/env", StrCat("PATH=", work_ / "", ":", getenv("PATH"))});
    return command;
  }
  // The processes of the nodes, which are children of the server's.
  void KillNode(const std::string& flag) {
    EXPECT_EQ(test::Run({"/bin/sh", "-c",
                         StrCat("for p in $(pgrep -x millrace); do tr '\\0' '\\n' < "
                                "/proc/$p/cmdline | grep -qx -e --topology=",
                                work_ / "topology.prototxt",
                                " && tr '\\0' '\\n' < /proc/$p/cmdline "
                                "| grep -qx -e ",
                                flag, " && kill -9 $p; done; true")})
                  .errors,
              "");
  }

  bool made_ = false;
  std::unique_ptr<Process> server_;
};

TEST_F(LaunchBySsh, TrainsToTheEnd) {
  const CommandResult result =
      test::Run(WithSsh(LaunchCommand({"--by=ssh"}, Workspace::Solver(300))));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, " | model saved: ");
  for (const std::string node : {"a", "b"}) {
    EXPECT_EQ(Matches(result.errors, "(" + node + ") [|] .*Optimization Done.").size(), 1u)
        << result.errors;
  }
}

TEST_F(LaunchBySsh, StartsTheNodesOfAnElasticRun) {
  const std::string reason = EtcdServer::WhyNot();
  if (!reason.empty()) GTEST_SKIP() << reason;
  EtcdServer etcd("127.0.0.1", FreePort());
  etcd.Start();
  WriteFile(work_ / "segments",
            StrCat("segment { name: 'lan' transport: 'udp' port: ", FreePort(), " }"));
  Process launch(WithSsh(
      Command({"launch", StrCat("--rendezvous=etcd://", etcd.endpoint(), "/run"), "--nodes=2:2",
               "--hosts=127.0.0.1,127.0.0.2", "--by=ssh", "--topology=" + (work_ / "segments"),
               "--", "train", "--solver=" + work_.Write("run", Workspace::Solver(100'000'000))})));
  // A run that ended before the second node has joined would leave that one waiting.
  ASSERT_TRUE(Eventually([&] {
    return Matches(launch.ErrorsSoFar(),
                   "127.0.0.[12] [|] .*(Joined the run at iteration|The run begins with)")
               .size() == 2;
  })) << launch.ErrorsSoFar();
  launch.Signal(SIGINT);
  const CommandResult result = launch.Wait();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, " | model saved: ");
  EXPECT_EQ(Matches(result.errors, "(127.0.0.[12]) [|] .*Registered as node n. at \\1").size(), 2u)
      << result.errors;
}

// A node that is killed on its machine is started again there; a stop reaches all nodes, and what
// they say at their end comes back.
TEST_F(LaunchBySsh, StartsAgainWhatIsKilledAndStopsAllTogether) {
  Process launch(WithSsh(LaunchCommand({"--by=ssh"}, Workspace::Solver(100'000'000))));
  const auto times = [&](const std::string& pattern) {
    return Matches(launch.ErrorsSoFar(), "b [|] .*(" + pattern + ")").size();
  };
  const std::string here = "Joined the run at iteration|The run begins";
  ASSERT_TRUE(Eventually([&] { return times(here) == 1; })) << launch.ErrorsSoFar();
  KillNode("--node=b");
  ASSERT_TRUE(WaitForLog(launch, "node b was ended by signal 9; starts again in 1 s"))
      << launch.ErrorsSoFar();
  ASSERT_TRUE(Eventually([&] { return times(here) == 2; })) << launch.ErrorsSoFar();
  launch.Signal(SIGINT);
  const CommandResult result = launch.Wait();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, " | model saved: ");
}

TEST_F(Launch, RefusesInOneLine) {
  ExpectOneLine(Millrace({"launch"}), {"--topology"});
  WriteTopology("127.0.0.1", "127.0.0.2");
  const std::string topology = "--topology=" + (work_ / "topology.prototxt");
  ExpectOneLine(Millrace({"launch", topology}), {"launch: no command is given"});
  ExpectOneLine(Millrace({"launch", topology, "--processes=2", "--", "train"}),
                {"--processes: expected --rendezvous with it"});
  const std::string run = "--rendezvous=etcd://127.0.0.1:1/run";
  ExpectOneLine(Millrace({"launch", run, "--", "train"}), {"--nodes=: expected MIN:MAX"});
  ExpectOneLine(
      Millrace({"launch", run, "--nodes=2:4", "--hosts=a", "--processes=2", "--", "train"}),
      {"--hosts and --processes: expected one of them"});
  ExpectOneLine(Millrace({"launch", topology, "--by=rsh", "--", "train"}),
                {"--by=rsh: expected auto"});
  ExpectOneLine(Millrace({"launch", topology, "--restarts=-1", "--", "train"}),
                {"--restarts=-1: expected at least 0"});
}

}  // namespace
}  // namespace millrace::test
