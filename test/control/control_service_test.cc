#include "millrace/control.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "control/access.h"
#include "control/control_client.h"
#include "control/endpoint_file.h"
#include "segment/auth/key_file.h"
#include "test/control/fake_run.h"
#include "test/support/free_port.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

std::string AddressOf(const ControlService& service) {
  return service.url().substr(std::string("http://").size());
}

TEST(ControlServiceTest, IsFoundAndControlledByItsUser) {
  FakeRun run;
  run.Set(SomeStatus());
  std::string address;
  {
    const ControlService service({.solver = "lenet_solver.prototxt"}, &run);
    address = AddressOf(service);
    const auto client = ControlClient::Find({.address = address});
    EXPECT_EQ(client.Status().iteration(), 250);
    EXPECT_EQ(client.Status().solver(), "lenet_solver.prototxt");
    client.Post("/v1/snapshot");
    EXPECT_EQ(run.Take(), std::vector<std::string>{"snapshot"});
    EXPECT_CONTAINS(ErrorOf([&] { client.Post("/v1/commands/none"); }), "there is no command");
  }
  EXPECT_CONTAINS(ErrorOf([&] { ControlClient::Find({.address = address}).Status(); }), "refused");
}

TEST(ControlServiceTest, RefusesAddressesOfOthersWithoutAKey) {
  FakeRun run;
  for (const char* address : {"0.0.0.0:0", "10.0.0.1:8400", "[::]:0"}) {
    EXPECT_CONTAINS(ErrorOf([&] { ControlService({.address = address}, &run); }),
                    "other machines can reach this address, expected a key_file");
  }
  for (const char* address : {"x:y", "127.0.0.1:70000", "::1:80", "a b:1"}) {
    EXPECT_CONTAINS(ErrorOf([&] { ControlService({.address = address}, &run); }),
                    "expected host:port");
  }
  EXPECT_CONTAINS(ErrorOf([&] { ControlService({.certificate = "cert.pem"}, &run); }),
                  "a certificate and its private key are given together");
  EXPECT_CONTAINS(ErrorOf([&] { ControlService({.key_file = "/nonexistent/key"}, &run); }),
                  "/nonexistent/key: No such file");
}

// Two nodes with one key: each forwards to the other, and others than who has the key can do
// nothing.
TEST(ControlServiceTest, ForwardsBetweenNodesWithTheClustersKey) {
  TempDir folder;
  WriteFile(folder / "key", std::string(64, '7'));
  chmod((folder / "key").c_str(), 0600);
  const int port_a = FreePort(), port_b = FreePort();
  WriteFile(folder / "pair.prototxt",
            StrCat("name: 'pair'\n"
                   "node { name: 'a' address: '127.0.0.1' control: '127.0.0.1:",
                   port_a,
                   "' }\n"
                   "node { name: 'b' address: '127.0.0.2' control: '127.0.0.1:",
                   port_b,
                   "' }\n"
                   "segment { name: 'lan' transport: 'udp' key_file: 'key' }\n"));
  FakeRun run_a, run_b;
  RunStatus status = SomeStatus();
  run_a.Set(status);
  status.iteration = 777;
  run_b.Set(status);
  const std::string topology = folder / "pair.prototxt";
  const ControlService a({.topology = topology, .node = "a"}, &run_a);
  const ControlService b({.topology = topology, .node = "b"}, &run_b);
  EXPECT_EQ(AddressOf(a), StrCat("127.0.0.1:", port_a));
  const auto client = ControlClient::Find({.topology = topology, .node = "b"});
  EXPECT_EQ(client.Status().node(), "b");
  EXPECT_EQ(client.Status().cluster(), "pair");
  client.Post("/v1/pause");
  EXPECT_EQ(run_b.Take(), std::vector<std::string>{"pause"});
  // By way of a.
  const auto forwarded =
      ControlClient::Find({.address = AddressOf(a), .topology = topology, .node = "b"});
  EXPECT_EQ(forwarded.address().text(), AddressOf(a));
  EXPECT_EQ(forwarded.Status().iteration(), 777);
  forwarded.Post("/v1/learning_rate", "{\"rate\":0.25}");
  EXPECT_EQ(run_b.Take(), std::vector<std::string>{"rate 0.250000"});
  EXPECT_TRUE(run_a.Take().empty());
  SecretKey other;
  const ControlClient stranger(*ParseHttpAddress(AddressOf(a)), {}, SharedKey(other));
  EXPECT_EQ(ErrorOf([&] { stranger.Post("/v1/stop"); }), "wrong signature");
  EXPECT_EQ(ErrorOf([&] { stranger.Post("/v1/nodes/b/stop"); }), "wrong signature");
  EXPECT_TRUE(run_b.Take().empty());
}

const RegisterControlCommand registered({.name = "test.registered",
                                         .help = "Is registered.",
                                         .run = [](const ControlCall&) { return "[1]"; }});

TEST(ControlServiceTest, HasRegisteredCommandsAndItsOwn) {
  FakeRun run;
  const ControlCommand own{.name = "own", .help = "", .run = [](const ControlCall& call) {
                             return StrCat(call.run.status().iteration);
                           }};
  run.Set(SomeStatus());
  const ControlService service({.commands = {own}}, &run);
  const auto client = ControlClient::Find({.address = AddressOf(service)});
  EXPECT_EQ(client.Post("/v1/commands/test.registered"), "[1]\n");
  EXPECT_EQ(client.Post("/v1/commands/own"), "250\n");
  EXPECT_CONTAINS(ErrorOf([&] {
                    ControlService({.commands = {own, own}}, &run);
                  }),
                  "control command own: two of them");
  EXPECT_CONTAINS(
      ErrorOf([&] { ControlService({.commands = {{.name = "a b", .run = own.run}}}, &run); }),
      "control command \"a b\": expected a name");
  EXPECT_CONTAINS(ErrorOf([&] { ControlService({.commands = {{.name = "a"}}}, &run); }),
                  "expected a function");
}

TEST(EndpointFileTest, ListsWhatRuns) {
  TempDir folder;
  Endpoint endpoint{.address = *ParseHttpAddress("127.0.0.1:8400"), .node = "a", .solver = "s"};
  endpoint.key.bytes()[3] = std::byte{9};
  {
    const EndpointFile file(endpoint, folder.path());
    // One file is of a process that has ended, others are damaged.
    WriteFile(folder / "millrace_control.1.1",
              R"({"address":"127.0.0.1:1","pid":999999999,"start_time":"1","key":")" +
                  std::string(64, '0') + "\"}");
    chmod((folder / "millrace_control.1.1").c_str(), 0600);
    WriteFile(folder / "millrace_control.2.1", "{");
    chmod((folder / "millrace_control.2.1").c_str(), 0600);
    WriteFile(folder / "other", "x");
    const auto found = FindEndpoints(folder.path());
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].address.text(), "127.0.0.1:8400");
    EXPECT_EQ(found[0].node, "a");
    EXPECT_EQ(found[0].pid, getpid());
    EXPECT_EQ(found[0].key.bytes()[3], std::byte{9});
    EXPECT_FALSE(FileExists(folder / "millrace_control.1.1"));
    struct stat status;
    ASSERT_EQ(stat((folder / StrCat("millrace_control.", getpid(), ".8400")).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
  }
  EXPECT_TRUE(FindEndpoints(folder.path()).empty());
}

}  // namespace
}  // namespace millrace::test
