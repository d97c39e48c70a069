// Raw Ethernet between emulated machines: interfaces, privileges, groups, padding, full rings and
// queues, and a cable that is unplugged.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "test/conformance/back_pressure.h"
#include "test/netns/packet_cases.h"
#include "transport/packet/socket.h"
#include "transport/packet/wire.h"

namespace millrace::test {
namespace {

class Packet : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = Network::WhyNot();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

std::string ErrorInside(const Network& network, const PacketOptions& options) {
  std::string error;
  network.Inside(0, [&] { error = ErrorOf([&] { ConnectPacket(options); }); });
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

uint64_t AllDrops(const Transport& end) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kDropReasons; ++i) sum += end.counters().dropped(DropReason(i));
  return sum;
}

// A network with an endpoint on machine 0 and a plain raw socket on machine 1, which the endpoint
// takes for node 1.
struct WithPlainPeer {
  explicit WithPlainPeer(const PacketOptions& options = {})
      : network(1500), endpoint(ConnectInside(network, 0, PacketOptionsOf(0, 2, options))) {
    network.Inside(1, [&] {
      plain = OpenPacketSocket();
      sockaddr_ll address{};
      address.sll_family = AF_PACKET;
      address.sll_protocol = htons(kPacketEtherType);
      address.sll_ifindex = static_cast<int>(if_nametoindex(Network::DeviceOf(1).c_str()));
      ASSERT_EQ(bind(plain.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    });
    ethernet.to = *ParseMacAddress(Network::MacOf(0));
    ethernet.from = *ParseMacAddress(Network::MacOf(1));
    prefix.from = 1;
    prefix.to = 0;
    prefix.tag = 5;
    prefix.sequence = 1;
  }

  // Sends a frame with `bytes` after its prefix, truncated or padded to `length` bytes in total.
  void Send(const EthernetHeader& header, const PacketPrefix& start, const Bytes& bytes,
            size_t length) {
    const PacketHead head = MakePacketHead(header, start);
    Bytes packet(head.begin(), head.end());
    packet.insert(packet.end(), bytes.begin(), bytes.end());
    packet.resize(length, std::byte{0xee});
    ASSERT_EQ(send(plain.get(), packet.data(), packet.size(), 0), static_cast<ssize_t>(length));
  }

  Network network;
  FileDescriptor plain;
  EthernetHeader ethernet;
  PacketPrefix prefix;
  std::unique_ptr<Transport> endpoint;
};

TEST_F(Packet, FindsAnInterfaceWithoutIpAddressByItsNameOrItsOwnAddress) {
  const Network network(1500);
  for (int machine : {0, 1}) {
    network.Run(machine, {"ip", "address", "flush", "dev", Network::DeviceOf(machine)});
  }
  PacketOptions by_address = PacketOptionsOf(0, 2), by_name = PacketOptionsOf(1, 2);
  by_address.interface = "02:00:00:99:00:01";
  auto first = ConnectInside(network, 0, by_address), second = ConnectInside(network, 1, by_name);
  const Bytes message = Numbered(7, 1000);
  ASSERT_TRUE(SendBytes(first.get(), 1, message));
  EXPECT_EQ(Collect(second.get(), 1)[0].bytes, message);
}

TEST_F(Packet, FramesFillTheMtuAndLongerOnesAreRefused) {
  for (const int mtu : {1500, 9000}) {
    const Network network(mtu);
    PacketOptions options = PacketOptionsOf(0, 2);
    EXPECT_EQ(ConnectInside(network, 0, options)->max_frame_bytes(), mtu - 16u);
    options.max_frame_bytes = mtu - 15;
    EXPECT_EQ(ErrorInside(network, options), StrCat("transport packet: max_frame_bytes=", mtu - 15,
                                                    ": interface mr0 has room for ", mtu - 16,
                                                    " (MTU ", mtu, "); expected that at most"));
  }
}

TEST_F(Packet, AnInterfaceThatWillNotDoIsOneLineSayingWhy) {
  const Network network(1500);
  const PacketOptions good = PacketOptionsOf(0, 2);
  PacketOptions options = good;
  options.interface = "none0";
  EXPECT_EQ(ErrorInside(network, options),
            "transport packet: interface=none0: there is no such interface: expected one of mr0 "
            "(02:00:00:99:00:01)");
  options.interface = "02:00:00:99:00:07";
  EXPECT_CONTAINS(ErrorInside(network, options), "there is no such interface");
  options.interface = "lo";
  EXPECT_CONTAINS(ErrorInside(network, options),
                  "interface=lo: this is the loopback device: expected one of mr0 (");
  options = good;
  options.peers = {{1, Network::MacOf(0)}};
  EXPECT_CONTAINS(ErrorInside(network, options),
                  "peers: 1=02:00:00:99:00:01: this is the address of this node's interface, mr0");
  network.Run(0, {"ip", "link", "add", "twin0", "type", "veth", "peer", "name", "twin1"});
  network.Run(0, {"ip", "link", "set", "twin0", "address", Network::MacOf(0)});
  options = good;
  options.interface = Network::MacOf(0);
  EXPECT_CONTAINS(ErrorInside(network, options), "several have this address: expected a name, one");
  network.Run(0, {"ip", "link", "set", "mr0", "mtu", "79"});
  EXPECT_CONTAINS(ErrorInside(network, good), "interface=mr0: its MTU is 79: expected 80 at least");
  network.Run(0, {"ip", "link", "set", "mr0", "down"});
  EXPECT_CONTAINS(ErrorInside(network, good), "interface=mr0: it is down: expected one that is up");
}

// The error of ConnectPacket on machine 0 for a user with exactly these capabilities; "" if it
// succeeds.
std::string ErrorWithCapabilities(const Network& network, uint32_t capabilities) {
  std::string error;
  network.Inside(0, [&] {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
      __user_cap_data_struct data[2] = {{capabilities, capabilities, 0}, {}};
      prctl(PR_SET_KEEPCAPS, 1);
      std::string said;
      // Applies to this thread, the only one of the child.
      if (syscall(SYS_setresuid, 65534, 65534, 65534) != 0 ||
          syscall(SYS_capset, &header, data) != 0) {
        said = "capabilities could not be set";
      }
      try {
        ConnectPacket(PacketOptionsOf(0, 2));
      } catch (const Error& thrown) {
        said += thrown.what();
      }
      [[maybe_unused]] const ssize_t written = write(ends[1], said.data(), said.size());
      _exit(0);
    }
    close(ends[1]);
    char text[1000];
    const ssize_t bytes = read(ends[0], text, sizeof(text));
    error.assign(text, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  });
  return error;
}

TEST_F(Packet, NeedsOnePrivilegeAndSaysHowToGrantIt) {
  const Network network(1500);
  EXPECT_EQ(ErrorWithCapabilities(network, 0),
            "transport packet: raw Ethernet frames need CAP_NET_RAW: grant it (setcap "
            "cap_net_raw+ep build/millrace), or run as root, or use transport udp");
  EXPECT_EQ(ErrorWithCapabilities(network, 1u << CAP_NET_RAW), "");
}

TEST_F(Packet, ClustersOnOneWireDoNotDeliverIntoEachOther) {
  const Network network(1500);
  PacketOptions one, other;
  one.group = 1;
  other.group = 256;  // 1 with its bytes swapped
  Group ones = ConnectPacketGroup(network, 2, one), others = ConnectPacketGroup(network, 2, other);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(SendBytes(ones[0].get(), 1, Numbered(i)));
  ASSERT_TRUE(SendBytes(others[0].get(), 1, Numbered(100)));
  EXPECT_EQ(Collect(ones[1].get(), 10).size(), 10u);
  const std::vector<Received> received = Collect(others[1].get(), 1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(NumberOf(received[0].bytes), 100u);
  for (const auto& end : others) EXPECT_EQ(AllDrops(*end), 0u);
}

TEST_F(Packet, ShortFramesAreDeliveredWithoutTheirPadding) {
  WithPlainPeer pair;
  for (const uint16_t bytes : {0, 1, 5, 30}) {
    pair.prefix.bytes = bytes;
    const Bytes message(bytes, std::byte{0x11});
    pair.Send(pair.ethernet, pair.prefix, message, 60);  // padded as by a device
    EXPECT_EQ(Collect(pair.endpoint.get(), 1)[0].bytes, message);
    ++pair.prefix.sequence;
  }
}

TEST_F(Packet, WhatNoEndpointSendsIsDroppedAndCounted) {
  WithPlainPeer pair;
  const Bytes none;
  const auto with = [&](auto change) {
    PacketPrefix prefix = pair.prefix;
    change(&prefix);
    return prefix;
  };
  const PacketPrefix bad[] = {
      with([](PacketPrefix* prefix) { prefix->magic ^= 1; }),
      with([](PacketPrefix* prefix) { prefix->kind = 3; }),
      with([](PacketPrefix* prefix) { prefix->bytes = 31; }),  // more than the frame has
      with([](PacketPrefix* prefix) { prefix->kind = 1; }),    // a truncated credit
      with([](PacketPrefix* prefix) { prefix->kind = 2, prefix->bytes = 1; }),
  };
  for (const PacketPrefix& prefix : bad) pair.Send(pair.ethernet, prefix, none, 60);
  // Not counted, since the kernel filters it out: a frame to another node.
  pair.Send(pair.ethernet, with([](PacketPrefix* prefix) { prefix->to = 9; }), none, 60);
  // Frames whose source address or sender field is wrong.
  EthernetHeader strange = pair.ethernet;
  strange.from.bytes[5] = 7;
  pair.Send(strange, pair.prefix, none, 60);
  pair.Send(pair.ethernet, with([](PacketPrefix* prefix) { prefix->from = 9; }), none, 60);
  pair.Send(pair.ethernet, pair.prefix, none, 60);
  EXPECT_EQ(Collect(pair.endpoint.get(), 1).size(), 1u);
  const TransportCounters& counters = pair.endpoint->counters();
  EXPECT_EQ(counters.dropped(DropReason::kMalformed), std::size(bad));
  EXPECT_EQ(counters.dropped(DropReason::kUnknownSender), 2u);
}

TEST_F(Packet, AFrameForAnotherMachineThatAnOpenEarHearsIsNotTaken) {
  WithPlainPeer pair;
  pair.network.Run(0, {"ip", "link", "set", "mr0", "promisc", "on"});
  EthernetHeader elsewhere = pair.ethernet;
  elsewhere.to.bytes[5] = 7;
  pair.prefix.bytes = 8;
  pair.Send(elsewhere, pair.prefix, Numbered(1), 60);
  pair.Send(pair.ethernet, pair.prefix, Numbered(2), 60);
  const std::vector<Received> received = Collect(pair.endpoint.get(), 1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(NumberOf(received[0].bytes), 2u);
}

TEST_F(Packet, AReceiverThatDoesNotReadStopsItsSenderAndLosesNothing) {
  for (const int mtu : {1500, 9000}) {
    const Network network(mtu);
    for (const size_t bytes : {size_t{8}, static_cast<size_t>(mtu - 16)}) {
      PacketOptions options;
      options.silence_ms = 3'600'000;
      Group group = ConnectPacketGroup(network, 2, options);
      ExpectThatAReceiverStopsItsSender(&group, bytes);
      EXPECT_EQ(AllDrops(*group[1]), 0u);
    }
  }
}

// The kernel closes a block after a millisecond, however little it contains.
TEST_F(Packet, AWindowOfFramesThatComeOneByOneFitsTheRing) {
  const Network network(1500);
  PacketOptions options;
  options.ring_blocks = 32;
  options.silence_ms = 3'600'000;
  Group group = ConnectPacketGroup(network, 2, options);
  ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(0)));
  EXPECT_EQ(Collect(group[1].get(), 1).size(), 1u);
  group[0]->Wait(Soon(DefaultClock()), WaitFor::kReceive);
  size_t sent = 0;
  const Bytes message = Numbered(1, 100);
  const OutFrame frame = {1, {}, message};
  for (Guard guard; guard.Waiting("the credit for the first frame");) {
    if (group[0]->Send({&frame, 1}).accepted == 1) {
      ++sent;
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    } else if (sent >= 23) {
      break;
    } else {
      group[0]->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
    }
  }
  EXPECT_LE(sent, 24u);
  EXPECT_EQ(Collect(group[1].get(), sent).size(), sent);
  EXPECT_EQ(AllDrops(*group[1]), 0u);
}

TEST_F(Packet, ACreditIsFoundThoughBlocksThatNobodyAskedForLieBeforeIt) {
  for (const size_t blocks : {32, 1024}) {  // fewer blocks than between two searches for credits,
                                            // and more
    const Network network(1500);
    PacketOptions options;
    options.ring_blocks = static_cast<int64_t>(blocks);
    options.silence_ms = 3'600'000;
    Group group = ConnectPacketGroup(network, 2, options);
    for (const int i : {0, 1}) {
      ASSERT_TRUE(SendBytes(group[i].get(), static_cast<NodeId>(1 - i), Numbered(0)));
      EXPECT_EQ(Collect(group[1 - i].get(), 1).size(), 1u);
      group[i]->Wait(Soon(DefaultClock()), WaitFor::kReceive);
    }
    const Bytes message = Numbered(1, 1400);
    const size_t back = SendUntilBusy(group[1].get(), 0, message, 10'000);
    const size_t sent = SendUntilBusy(group[0].get(), 1, message, 10'000);
    EXPECT_EQ(Collect(group[1].get(), sent).size(), sent);
    size_t more = 0;
    const OutFrame frame = {1, {}, message};
    for (Guard guard; more == 0 && guard.Waiting("a credit");) {
      more = group[0]->Send({&frame, 1}).accepted;
      if (more == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(more, 1u);
    EXPECT_EQ(Collect(group[0].get(), back).size(), back);
    for (const auto& end : group) EXPECT_EQ(AllDrops(*end), 0u);
  }
}

TEST_F(Packet, WhatTheRingHasNoRoomForIsCounted) {
  for (const int mtu : {1500, 9000}) {
    const Network network(mtu);
    PacketOptions options;
    options.window_frames = 10'000;  // far above the capacity
    options.ring_blocks = 2;
    options.silence_ms = 3'600'000;
    Group group = ConnectPacketGroup(network, 2, options);
    const auto bytes = static_cast<size_t>(mtu - 500);
    ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(0, bytes)));
    Collect(group[1].get(), 1);
    group[0]->Wait(Soon(DefaultClock()), WaitFor::kReceive);
    Guard guard;
    uint64_t sent = 1;
    // The receiver may not have sent its first credits yet.
    while (sent < 501 && guard.Waiting("the first credits")) {
      sent += SendUntilBusy(group[0].get(), 1, Numbered(1, bytes), 501 - sent);
      if (sent == 501) break;
      Drain(group[1].get());
      group[1]->Wait(Soon(DefaultClock()), WaitFor::kReceive);
      group[0]->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
    }
    const TransportCounters& counters = group[1]->counters();
    // The kernel reports drops together with frames that arrive later.
    while (counters.frames_received() + counters.dropped(DropReason::kOverrun) < sent &&
           guard.Waiting("the count")) {
      ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(2, bytes)));
      ++sent;
      Collect(group[1].get(), 1);
    }
    EXPECT_GT(counters.dropped(DropReason::kOverrun), 0u);
    EXPECT_EQ(counters.frames_received() + counters.dropped(DropReason::kOverrun), sent);
  }
}

TEST_F(Packet, ACableThatIsPulledOutAndPutInAgainCostsFramesOnly) {
  const Network network(1500);
  PacketOptions options;
  options.window_frames = 8;
  options.silence_ms = 20;
  Group group = ConnectPacketGroup(network, 2, options);
  for (const int machine : {0, 1}) {
    ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(1)));
    EXPECT_EQ(Collect(group[1].get(), 1).size(), 1u);
    network.Run(machine, {"ip", "link", "set", Network::DeviceOf(machine), "down"});
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(2)));
      group[1]->Wait(DefaultClock().NowNs(), WaitFor::kReceive);
    }
    network.Run(machine, {"ip", "link", "set", Network::DeviceOf(machine), "up"});
    bool arrived = false;
    for (Guard guard; !arrived && guard.Waiting("a frame after the cable was put in");) {
      ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(3)));
      group[1]->Wait(Soon(DefaultClock()), WaitFor::kReceive);
      group[0]->Wait(DefaultClock().NowNs(), WaitFor::kReceive);  // sends a probe
      for (const Received& frame : Drain(group[1].get())) arrived |= NumberOf(frame.bytes) == 3;
    }
  }
  const TransportCounters& counters = group[0]->counters();
  EXPECT_GT(counters.dropped(DropReason::kFailed), 0u);
  EXPECT_GT(counters.dropped(DropReason::kUnreachable), 0u);
}

// Shaped to 20 Mbit/s, so that either the queue overflows or the socket buffer fills.
TEST_F(Packet, AQueueThatIsFullIsBackPressureAndNoLoss) {
  const std::string reason = Network::WhyNoBridge();
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const char* limit : {"5000", "1000000"}) {
    const Network network(1500, 3);
    network.Run(0, {"tc", "qdisc", "add", "dev", "mr0", "root", "tbf", "rate", "20mbit", "burst",
                    "16kb", "limit", limit});
    PacketOptions options;
    options.send_buffer_bytes = 4096;
    options.silence_ms = 3'600'000;
    Group group = ConnectPacketGroup(network, 3, options);
    constexpr uint64_t kFrames = 200;
    std::vector<std::set<uint64_t>> arrived(3);
    const auto take = [&] {
      for (const size_t node : {1, 2}) {
        for (const Received& frame : Drain(group[node].get())) {
          EXPECT_EQ(frame.bytes, Numbered(NumberOf(frame.bytes), 1000));
          EXPECT_TRUE(arrived[node].insert(NumberOf(frame.bytes)).second) << "delivered twice";
        }
      }
    };
    Guard guard;
    for (uint64_t number = 0; number < kFrames && guard.Waiting("room");) {
      const Bytes message = Numbered(number, 1000);
      const OutFrame frame = {kAllNodes, {}, message};
      number += group[0]->Send({&frame, 1}).accepted;
      group[0]->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
      take();
    }
    while ((arrived[1].size() < kFrames || arrived[2].size() < kFrames) &&
           guard.Waiting("the rest")) {
      group[0]->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
      take();
    }
    EXPECT_GT(group[0]->counters().busy(), 0u);
    EXPECT_EQ(group[0]->counters().transmissions(), 2 * kFrames);
    for (const auto& end : group) EXPECT_EQ(AllDrops(*end), 0u);
  }
}

}  // namespace
}  // namespace millrace::test
