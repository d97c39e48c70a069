// Errors that keep a node from starting: one line, and exit status 1.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/rdma_vm/cluster_of_devices.h"

namespace millrace::test {
namespace {

class StartOverVerbs : public ClusterOfDevices {
 protected:
  // The error line of node a.
  std::string LineOf(const std::string& fields = "", const std::vector<std::string>& wrapper = {}) {
    size_ = 2;
    WriteTopology(Segment(fields));
    Start(0, Endless(), "topology.prototxt", "", wrapper);
    return FinishWithError(0);
  }
  // A wrapper that runs the command as "$0" "$@".
  static std::vector<std::string> Shell(const std::string& script) {
    return {"/usr/bin/env", "bash", "-c", script};
  }
};

TEST_F(StartOverVerbs, SaysThatThereIsNoDevice) {
  EXPECT_EQ(LineOf("", Shell("exec unshare -m bash -c 'mount -t tmpfs none /dev/infiniband && "
                             "exec \"$0\" \"$@\"' \"$0\" \"$@\"")),
            "millrace: transport verbs: this machine has no RDMA device: expected one "
            "(ibv_devices lists them) and the kernel module rdma_ucm, or use transport udp");
}

TEST_F(StartOverVerbs, SaysThatNoDeviceHasTheAddress) {
  RunOrFail({"ip", "address", "del", "10.98.0.1/24", "dev", "e1"});
  EXPECT_CONTAINS(LineOf(),
                  "millrace: transport verbs: address=10.98.0.1:29448: no RDMA device has this "
                  "address: expected one of 10.98.0.2 (rxe2), ");
  RunOrFail({"ip", "address", "add", "10.98.0.1/24", "dev", "e1"});
  SetLink(0, true);
}

TEST_F(StartOverVerbs, SaysThatTheLinkIsDown) {
  SetLink(0, false);
  EXPECT_EQ(LineOf(),
            "millrace: transport verbs: address=10.98.0.1:29448: rxe1 port 1 is down: expected a "
            "port that is active (cable, subnet manager, ip link set ... up)");
  SetLink(0, true);
}

TEST_F(StartOverVerbs, SaysThatMemoryMayNotBeLocked) {
  const std::string line = LineOf("", Shell("ulimit -l 64 && exec setpriv --bounding-set=-ipc_lock "
                                            "--inh-caps=-ipc_lock \"$0\" \"$@\""));
  EXPECT_CONTAINS(line, "millrace: transport verbs: rxe1 port 1: ");
  EXPECT_CONTAINS(line, "this process may lock 64 KiB of memory: expected more (ulimit -l");
}

TEST_F(StartOverVerbs, SaysThatTheDeviceTakesShorterDatagrams) {
  RunOrFail({"ip", "link", "set", NodeDevice(0), "mtu", "1500"});
  EXPECT_EQ(LineOf(),
            "millrace: transport verbs: max_frame_bytes=4080: rxe1 port 1 has room for 1008 (MTU "
            "1024); expected that at most, or in a topology file an mtu of the segment that all "
            "its devices have");
  RunOrFail({"ip", "link", "set", NodeDevice(0), "mtu", "9000"});
}

TEST_F(StartOverVerbs, SaysThatGroupsAreRefusedWhereTheyAreAskedFor) {
  const std::string line = LineOf(Multicast("on"), RefusedGroups());
  EXPECT_CONTAINS(line, "millrace: transport verbs: rxe1 port 1: multicast group 239.");
  EXPECT_CONTAINS(line,
                  " is refused: Operation not permitted: expected a fabric with multicast, or "
                  "multicast=auto");
}

}  // namespace
}  // namespace millrace::test
