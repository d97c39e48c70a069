// RDMA datagrams: sends from the caller's memory, loss, nodes that leave and return, clusters side
// by side, a port that goes down, and invalid settings.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "millrace/transport_registry.h"
#include "test/rdma_vm/fabric.h"
#include "test/rdma_vm/verbs_cases.h"
#include "transport/verbs/groups.h"

namespace millrace::test {
namespace {

class Verbs : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = WhyNoVerbs();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  static VerbsOptions Patient() {
    VerbsOptions options;
    options.silence_ms = 1000 * Patience();
    return options;
  }
};

std::string ErrorWith(const VerbsOptions& options) {
  const std::string error = ErrorOf([&] { ConnectVerbs(options); });
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

// Sends `frames` numbered frames from node 0 to `to`. Returns the numbers that arrived at each of
// the others; fails the test on duplicates unless `twice`.
std::vector<std::set<uint64_t>> Stream(Group* group, NodeId to, uint64_t frames,
                                       bool twice = false) {
  std::vector<std::set<uint64_t>> arrived(group->size());
  const auto take = [&] {
    bool any = false;
    for (size_t node = 1; node < group->size(); ++node) {
      for (const Received& frame : Drain((*group)[node].get())) {
        any = true;
        EXPECT_EQ(frame.bytes, Numbered(NumberOf(frame.bytes), 3000));
        const bool is_new = arrived[node].insert(NumberOf(frame.bytes)).second;
        EXPECT_TRUE(is_new || twice) << "delivered twice";
      }
    }
    return any;
  };
  Guard guard;
  for (uint64_t number = 0; number < frames && guard.Waiting("room");) {
    const Bytes message = Numbered(number, 3000);
    const OutFrame frame = {to, {}, message};
    const SendResult result = (*group)[0]->Send({&frame, 1});
    number += result.accepted;
    take();
    for (size_t node = 1; node < group->size(); ++node) {
      (*group)[node]->Wait(INT64_MIN, WaitFor::kReceive);
    }
    if (result.accepted == 0) (*group)[0]->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
  }
  for (int quiet = 0; quiet < 20; quiet = take() ? 0 : quiet + 1) {
    (*group)[1]->Wait(Soon(DefaultClock()), WaitFor::kReceive);
  }
  return arrived;
}

TEST(VerbsGroups, AreOtherAddressesForEachClusterAndSegment) {
  EXPECT_EQ(DefaultMulticastBase(false, 0), "239.64.0.0");
  EXPECT_EQ(DefaultMulticastBase(false, 5), "239.64.1.64");
  EXPECT_EQ(DefaultMulticastBase(false, 65535), "239.127.255.192");
  EXPECT_EQ(DefaultMulticastBase(true, 0xabc), "ff15::7362:abc:0");
  std::set<uint32_t> used;
  for (uint32_t group = 0; group < 65536; ++group) {
    in_addr base;
    ASSERT_EQ(inet_pton(AF_INET, DefaultMulticastBase(false, group).c_str(), &base), 1);
    for (uint32_t node = 0; node < 64; node += 63) used.insert(ntohl(base.s_addr) + node);
  }
  EXPECT_EQ(used.size(), 2 * 65536u);
}

TEST_F(Verbs, FindsTheMtuOfThePortAndFillsIt) {
  Group group = ConnectVerbsGroup(2, Patient());
  EXPECT_EQ(group[0]->max_frame_bytes(), 4096u - 16u);
  EXPECT_TRUE(group[0]->info().multicast);
  EXPECT_FALSE(group[0]->info().copies);
  VerbsOptions options = VerbsOptionsOf(2, 3);
  options.max_frame_bytes = 4081;
  EXPECT_EQ(ErrorWith(options),
            "transport verbs: max_frame_bytes=4081: rxe3 port 1 has room for 4080 (MTU 4096); "
            "expected that at most, or in a topology file an mtu of the segment that all its "
            "devices have");
}

TEST_F(Verbs, SendsFromMemoryThatItWasShownAndSaysWhenItIsDone) {
  Group group = ConnectVerbsGroup(2, Patient());
  std::vector<float> weights(100'000);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
  const auto memory = std::as_bytes(std::span(weights));
  ASSERT_TRUE(group[0]->RegisterMemory(memory));
  const Bytes header = Numbered(5, 40);
  for (size_t at = 0; at + 4000 <= memory.size(); at += 4000) {
    const OutFrame frame = {NodeId{1}, header, memory.subspan(at, 4000)};
    ASSERT_TRUE(SendOne(group[0].get(), frame));
    ASSERT_TRUE(Flush(group[0].get()));
    const std::vector<Received> received = Collect(group[1].get(), 1);
    ASSERT_EQ(received.size(), 1u);
    Bytes expected = header;
    expected.insert(expected.end(), frame.payload.begin(), frame.payload.end());
    ASSERT_EQ(received[0].bytes, expected);
  }
}

TEST_F(Verbs, AMulticastIsOneTransmissionHoweverManyReceiveIt) {
  Group group = ConnectVerbsGroup(kVerbsNodes, Patient());
  const auto arrived = Stream(&group, kAllNodes, 300);
  for (size_t node = 1; node < group.size(); ++node) EXPECT_EQ(arrived[node].size(), 300u);
  EXPECT_EQ(group[0]->counters().transmissions(), 300u);
  EXPECT_TRUE(Drain(group[0].get()).empty());
}

TEST_F(Verbs, ANodeThatIsInNoGroupGetsCopies) {
  VerbsOptions options = Patient();
  options.group = 40'000;
  Group group;
  for (int node = 0; node < 3; ++node) {
    options.multicast = node == 2 ? VerbsMulticast::kOff : VerbsMulticast::kOn;
    group.push_back(ConnectVerbs(VerbsOptionsOf(node, 3, options)));
  }
  AwaitReach(group);
  for (const uint64_t sender : {0, 2}) {
    const Bytes message = Numbered(sender, 500);
    ASSERT_TRUE(SendBytes(group[sender].get(), kAllNodes, message));
    for (size_t node = 0; node < 3; ++node) {
      if (node == sender) continue;
      const std::vector<Received> received = Collect(group[node].get(), 1);
      ASSERT_EQ(received.size(), 1u);
      EXPECT_EQ(received[0].bytes, message);
      EXPECT_EQ(received[0].from, sender);
    }
    EXPECT_EQ(group[sender]->counters().transmissions(), 2u);
  }
}

TEST_F(Verbs, LossOfFramesAndCreditsAlikeStallsNobody) {
  for (const char* loss : {"1%", "10%"}) {
    for (const NodeId to : {NodeId{1}, kAllNodes}) {
      VerbsOptions options = Patient();
      options.window_frames = 16;
      Group group = ConnectVerbsGroup(3, options);
      const Disturbance disturbance({0, 1, 2}, {"loss", loss});
      constexpr uint64_t kFrames = 1000;
      const auto arrived = Stream(&group, to, kFrames);
      for (size_t node = 1; node < 3; ++node) {
        if (to == 1 && node == 2) continue;
        EXPECT_GT(arrived[node].size(), kFrames / 2);
        EXPECT_LT(arrived[node].size(), kFrames);
      }
      EXPECT_EQ(group[0]->counters().frames_sent(), kFrames);
      EXPECT_EQ(group[0]->counters().dropped(DropReason::kUnreachable), 0u);
    }
  }
}

TEST_F(Verbs, WhatIsReorderedAndDuplicatedArrivesAsItWasSent) {
  Group group = ConnectVerbsGroup(3, Patient());
  const Disturbance disturbance({1, 2}, {"delay", "1ms", "reorder", "25%", "duplicate", "5%"});
  constexpr uint64_t kFrames = 1000;
  const auto arrived = Stream(&group, kAllNodes, kFrames, true);
  for (size_t node = 1; node < 3; ++node) EXPECT_EQ(arrived[node].size(), kFrames);
}

TEST_F(Verbs, ANodeThatComesBackIsFoundAgain) {
  VerbsOptions options = Patient();
  options.group = 41'000;
  auto first = ConnectVerbs(VerbsOptionsOf(0, 2, options));
  for (int incarnation = 0; incarnation < 3; ++incarnation) {
    auto second = ConnectVerbs(VerbsOptionsOf(1, 2, options));
    // Frames sent to the former incarnation are lost; eventually both directions work again.
    Guard guard;
    bool there = false, back = false;
    for (uint64_t number = 0; !(there && back) && guard.Waiting("the other"); ++number) {
      const Bytes message = Numbered(number, 64);
      for (auto& [from, to] : {std::pair(&first, NodeId{1}), std::pair(&second, NodeId{0})}) {
        const OutFrame frame = {to, {}, message};
        (*from)->Send({&frame, 1});
        (*from)->Wait(Soon(DefaultClock()), WaitFor::kReceive);
      }
      there |= !Drain(second.get()).empty();
      back |= !Drain(first.get()).empty();
    }
    EXPECT_TRUE(there && back);
  }
}

TEST_F(Verbs, ANodeThatTakesShorterDatagramsIsNotSentTo) {
  VerbsOptions options = Patient();
  options.group = 43'000;
  options.silence_ms = 200;
  auto wide = ConnectVerbs(VerbsOptionsOf(0, 2, options));
  options.max_frame_bytes = 1000;
  auto narrow = ConnectVerbs(VerbsOptionsOf(1, 2, options));
  Guard guard;
  const Bytes message = Numbered(1, 64);
  while (wide->counters().dropped(DropReason::kUnreachable) == 0 && guard.Waiting("silence")) {
    for (auto& [from, to] : {std::pair(&wide, NodeId{1}), std::pair(&narrow, NodeId{0})}) {
      const OutFrame frame = {to, {}, message};
      (*from)->Send({&frame, 1});
      (*from)->Wait(Soon(DefaultClock()), WaitFor::kReceive);
    }
  }
  EXPECT_EQ(wide->counters().transmissions(), 0u);
  EXPECT_TRUE(Drain(narrow.get()).empty());
}

// The error of ConnectVerbs in a process that may lock at most `bytes` bytes of memory and lacks
// the privilege to exceed the limit; "" if it succeeds.
std::string ErrorWithLockedMemory(rlim_t bytes) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string said;
    const rlimit limit = {bytes, bytes};
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    if (syscall(SYS_capget, &header, data) != 0) said = "no capabilities";
    for (__user_cap_data_struct& each : data) each.inheritable = 0;
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || syscall(SYS_capset, &header, data) != 0) {
      said = "the limit could not be set";
    }
    try {
      ConnectVerbs(VerbsOptionsOf(0, 2));
    } catch (const Error& error) {
      said += error.what();
    }
    [[maybe_unused]] const ssize_t written = write(ends[1], said.data(), said.size());
    _exit(0);
  }
  close(ends[1]);
  char text[1000];
  const ssize_t got = read(ends[0], text, sizeof(text));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return {text, static_cast<size_t>(std::max<ssize_t>(got, 0))};
}

TEST_F(Verbs, WithoutLockedMemoryItSaysWhatTheLimitIs) {
  const std::string error = ErrorWithLockedMemory(64 * 1024);
  EXPECT_CONTAINS(error, "transport verbs: rxe1 port 1: ");
  EXPECT_CONTAINS(error, "this process may lock 64 KiB of memory: expected more (ulimit -l");
  EXPECT_EQ(ErrorWithLockedMemory(64 * 1024 * 1024), "");
}

TEST_F(Verbs, ClustersWithTheSameGroupsReceiveNothingFromEachOther) {
  VerbsOptions options = Patient();
  Group one = ConnectVerbsGroup(2, options);
  options.group = 42'000;
  Group other;
  for (int node = 0; node < 2; ++node) {
    VerbsOptions own = options;
    own.node = static_cast<NodeId>(node);
    own.address = StrCat("10.98.0.", node + 3, ":7800");
    own.peers = {{static_cast<NodeId>(1 - node), StrCat("10.98.0.", 4 - node, ":7800")}};
    other.push_back(ConnectVerbs(own));
  }
  AwaitReach(other);
  const Bytes first = Numbered(1, 100), second = Numbered(2, 100);
  ASSERT_TRUE(SendBytes(one[0].get(), kAllNodes, first));
  ASSERT_TRUE(SendBytes(other[0].get(), kAllNodes, second));
  const std::vector<Received> at_one = Collect(one[1].get(), 1);
  const std::vector<Received> at_other = Collect(other[1].get(), 1);
  ASSERT_EQ(at_one.size() + at_other.size(), 2u);
  EXPECT_EQ(at_one[0].bytes, first);
  EXPECT_EQ(at_other[0].bytes, second);
  EXPECT_TRUE(Drain(one[1].get()).empty());
  for (const Group* group : {&one, &other}) {
    for (size_t i = 0; i < kDropReasons; ++i) {
      EXPECT_EQ((*group)[1]->counters().dropped(DropReason(i)), 0u);
    }
  }
}

TEST_F(Verbs, GoesOnAfterThePortWasDown) {
  VerbsOptions options = Patient();
  options.silence_ms = 300;
  Group group = ConnectVerbsGroup(2, options);
  ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(1, 64)));
  EXPECT_EQ(Collect(group[1].get(), 1).size(), 1u);
  SetLink(0, false);
  const Bytes message = Numbered(2, 64);
  const OutFrame frame = {NodeId{1}, {}, message};
  const auto lost = [&] {
    const TransportCounters& counters = group[0]->counters();
    return counters.dropped(DropReason::kFailed) + counters.dropped(DropReason::kUnreachable);
  };
  Guard guard;
  while (lost() == 0 && guard.Waiting("the loss to be seen")) {
    group[0]->Send({&frame, 1});
    group[0]->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
  }
  SetLink(0, true);
  bool there = false, back = false;
  const OutFrame answer = {NodeId{0}, {}, message};
  while (!(there && back) && guard.Waiting("the port's return")) {
    group[0]->Send({&frame, 1});
    group[1]->Send({&answer, 1});
    for (auto& end : group) end->Wait(Soon(DefaultClock()), WaitFor::kReceive);
    back |= !Drain(group[0].get()).empty();
    there |= !Drain(group[1].get()).empty();
  }
}

TEST_F(Verbs, APortThatIsDownIsOneLineSayingSo) {
  SetLink(3, false);
  EXPECT_EQ(ErrorWith(VerbsOptionsOf(3, 4)),
            "transport verbs: address=10.98.0.4:7703: rxe4 port 1 is down: expected a port that "
            "is active (cable, subnet manager, ip link set ... up)");
  SetLink(3, true);
}

TEST_F(Verbs, APortThatWillNotDoIsOneLineSayingWhy) {
  VerbsOptions options = VerbsOptionsOf(0, 2);
  options.address = "10.98.0.77:7700";
  EXPECT_CONTAINS(ErrorWith(options),
                  "transport verbs: address=10.98.0.77:7700: no RDMA device has this address: "
                  "expected one of 10.98.0.1 (rxe1), 10.98.0.2 (rxe2)");
  for (const std::string address : {"127.0.0.1:7700", "0.0.0.0:7700"}) {
    options.address = address;
    EXPECT_CONTAINS(ErrorWith(options),
                    address + ": this is no device's: expected one of 10.98.0.1 (rxe1)");
  }
  options = VerbsOptionsOf(0, 2);
  options.send_slots = 15;
  EXPECT_CONTAINS(ErrorWith(options), "send_slots=15: expected an integer from 16 to 32768");
  options = VerbsOptionsOf(0, 2);
  options.multicast_base = "10.0.0.0";
  EXPECT_EQ(ErrorWith(options),
            "transport verbs: multicast_base=10.0.0.0: expected a multicast address of IPv4");
  TransportConfig config{.transport = "verbs", .node = 0, .options = {}};
  config.options = {{"address", VerbsAddress(0)}, {"peers", "1=10.98.0.2:7701"}};
  config.options["multicast"] = "perhaps";
  EXPECT_EQ(ErrorOf([&] { TransportRegistry::Get().Create(config); }),
            "transport verbs: multicast=perhaps: expected auto, on or off");
}

}  // namespace
}  // namespace millrace::test
