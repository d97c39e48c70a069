// Properties specific to the UDP transport: options, windows over real sockets, and the handling of
// malformed datagrams.
#include "transport/udp/transport.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "test/conformance/back_pressure.h"
#include "test/conformance/udp_cases.h"
#include "test/support/fake_clock.h"
#include "test/transport/create_error.h"
#include "transport/inet_address.h"
#include "transport/udp/wire.h"

namespace millrace::test {
namespace {

std::string UdpError(const OptionTexts& options) {
  return OptionError("udp", options, {{"address", "127.0.0.1:0"}, {"peers", "1=127.0.0.1:9"}});
}

// Two connected endpoints, which do not give each other up while the test gets no processor.
Group Pair(UdpOptions options, const UdpSocketOptions& socket = {.address = "127.0.0.1:0"}) {
  options.silence_ms = 3'600'000;
  return ConnectUdpGroup(
      2, [&](int) { return UdpSocket(socket); }, options);
}

// An endpoint whose only peer, node 1, is a plain socket.
struct WithPlainPeer {
  explicit WithPlainPeer(UdpOptions options,
                         const UdpSocketOptions& own = {.address = "127.0.0.1:0"})
      : peer({.address = "127.0.0.1:0"}) {
    UdpSocket socket(own);
    address = socket.local();
    options.peers = {{1, peer.local().Text()}};
    endpoint = ConnectUdp(std::move(socket), options);
  }

  void SendToEndpoint(std::span<const std::byte> datagram) {
    EXPECT_EQ(
        sendto(peer.fd(), datagram.data(), datagram.size(), 0, &address.any, address.length()),
        static_cast<ssize_t>(datagram.size()));
  }
  void SendControl(DatagramKind kind, const ControlMessage& message) {
    const UdpControl control = MakeUdpControl(kind, message);
    SendToEndpoint(std::as_bytes(std::span(&control, 1)));
  }
  void SendCredit(uint64_t stream, uint32_t freed, uint32_t window) {
    SendControl(DatagramKind::kCredit, {freed, 5, stream, window});
  }
  // The next datagram received, without its bytes; kind 15 if there is none.
  Datagram Next() {
    Datagram datagram;
    Bytes bytes(65536);
    const ssize_t count = recv(peer.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    datagram.kind = static_cast<DatagramKind>(15);
    if (count < 0) return datagram;
    EXPECT_TRUE(ParseUdpDatagram({bytes.data(), static_cast<size_t>(count)}, &datagram));
    return datagram;
  }

  UdpSocket peer;
  InetAddress address;
  std::unique_ptr<Transport> endpoint;
};

TEST(Udp, BadOptionsAreOneLineNamingTheOption) {
  EXPECT_CONTAINS(UdpError({{"address", "127.0.0.1"}}), "address=127.0.0.1: expected HOST:PORT");
  EXPECT_CONTAINS(UdpError({{"address", "::1:7"}}), "address=::1:7: expected HOST:PORT");
  EXPECT_CONTAINS(UdpError({{"address", "127.0.0.1:99999"}}), "address=127.0.0.1:99999: expected");
  EXPECT_CONTAINS(UdpError({{"address", "300.0.0.1:1"}}), "300.0.0.1 is not an address");
  EXPECT_CONTAINS(UdpError({{"address", "192.0.2.1:7"}}), "address=192.0.2.1:7: Cannot assign");
  EXPECT_CONTAINS(UdpError({{"interface", "none0"}}), "interface=none0: there is no such");
  EXPECT_CONTAINS(UdpError({{"peers", "127.0.0.1:7"}}), "127.0.0.1:7: expected NODE=HOST:PORT");
  EXPECT_CONTAINS(UdpError({{"peers", "x=127.0.0.1:7"}}), "x=127.0.0.1:7: expected NODE=");
  EXPECT_CONTAINS(UdpError({{"peers", "1=127.0.0.1:7,1=127.0.0.1:8"}}), "node 1 is there twice");
  EXPECT_CONTAINS(UdpError({{"peers", "1=127.0.0.1:7,2=127.0.0.1:7"}}),
                  "2=127.0.0.1:7: node 1 has this address already");
  EXPECT_CONTAINS(UdpError({{"peers", "0=127.0.0.1:7"}}), "expected the id of another node");
  EXPECT_CONTAINS(UdpError({{"peers", "1=[::1]:7"}}), "expected an address of the family");
  EXPECT_CONTAINS(UdpError({{"peers", "1=127.0.0.1:0"}}), "expected a port from 1");
  EXPECT_CONTAINS(UdpError({{"window_frames", "0"}}), "window_frames=0: expected an integer");
  EXPECT_CONTAINS(UdpError({{"receive_buffers", "1"}}), "receive_buffers=1: expected an integer");
  EXPECT_CONTAINS(UdpError({{"send_buffer_bytes", "1"}}), "send_buffer_bytes=1: expected");
  EXPECT_CONTAINS(UdpError({{"silence_ms", "0"}}), "silence_ms=0: expected an integer");
  EXPECT_CONTAINS(UdpError({{"port", "7"}}), "unknown option port");
}

TEST(Udp, AnAddressInUseIsOneLineNamingIt) {
  const UdpSocket socket({.address = "127.0.0.1:0"});
  const std::string text = socket.local().Text();
  EXPECT_EQ(UdpError({{"address", text}}),
            "transport udp: address=" + text + ": Address already in use");
}

TEST(Udp, AFrameLongerThanThePathTakesIsRefusedNamingBoth) {
  const std::string error = UdpError({{"max_frame_bytes", "65500"}});
  EXPECT_CONTAINS(error, "max_frame_bytes=65500: the path to 127.0.0.1:9 has room for 65496");
  EXPECT_CONTAINS(error, "fragment=1");
  UdpSocket socket({.address = "127.0.0.1:0"});
  UdpOptions options;
  options.peers = {{1, "127.0.0.1:9"}};
  EXPECT_EQ(ConnectUdp(std::move(socket), options)->max_frame_bytes(), 65496u);
}

TEST(Udp, ReadsAddressesOfBothFamilies) {
  EXPECT_EQ(ResolveUdpAddress("f", "10.1.2.3:80").Text(), "10.1.2.3:80");
  EXPECT_EQ(ResolveUdpAddress("f", "[2001:db8::1]:80").Text(), "[2001:db8::1]:80");
  EXPECT_EQ(ResolveUdpAddress("f", "localhost:80").port(), 80);
  EXPECT_FALSE(ResolveUdpAddress("f", "10.1.2.3:80") == ResolveUdpAddress("f", "10.1.2.3:81"));
}

TEST(Udp, FindsPeersWhateverTheirHashes) {
  std::map<NodeId, InetAddress> addresses;
  for (NodeId node = 0; node < 500; ++node) {
    addresses[node] = ResolveUdpAddress("f", StrCat("10.0.", node / 100, ".", node % 100, ":7777"));
  }
  const InetPeers peers(addresses);
  for (const auto& [node, address] : addresses) EXPECT_EQ(peers.Find(address), node);
  for (int port = 1; port < 1000; ++port) {
    EXPECT_EQ(peers.Find(ResolveUdpAddress("f", StrCat("10.0.0.1:", port))), InetPeers::kNone);
  }
}

TEST(Udp, ADatagramFromAStrangerIsDroppedAndCounted) {
  const UdpSocket stranger({.address = "127.0.0.1:0"});
  WithPlainPeer known({});
  const Bytes message = Numbered(1);
  ASSERT_EQ(sendto(stranger.fd(), message.data(), message.size(), 0, &known.address.any,
                   known.address.length()),
            8);
  EXPECT_TRUE(Drain(known.endpoint.get()).empty());
  EXPECT_EQ(known.endpoint->counters().dropped(DropReason::kUnknownSender), 1u);
}

TEST(Udp, WhatNoEndpointSendsIsDroppedAndCounted) {
  WithPlainPeer pair({});
  const UdpPrefix good = MakeUdpPrefix(DatagramKind::kFrame, 0, 1, 1);
  const auto with = [&](auto change, size_t bytes) {
    UdpPrefix prefix = good;
    change(&prefix);
    Bytes datagram(bytes);
    std::memcpy(datagram.data(), &prefix, std::min(bytes, sizeof(prefix)));
    return datagram;
  };
  const auto unchanged = [](UdpPrefix*) {};
  const std::vector<Bytes> bad = {
      {},
      with(unchanged, 7),
      with(unchanged, 20),                                               // not a multiple of 8
      with([](UdpPrefix* prefix) { prefix->magic ^= 1; }, 16),           // bad magic
      with([](UdpPrefix* prefix) { prefix->kind_and_pad = 0x30; }, 16),  // unknown kind
      with([](UdpPrefix* prefix) { prefix->kind_and_pad = 0x08; }, 16),  // too much padding
      with([](UdpPrefix* prefix) { prefix->kind_and_pad = 0x01; }, 8),   // more padding than bytes
      with([](UdpPrefix* prefix) { prefix->kind_and_pad = 0x10; }, 8),   // a truncated credit
      with([](UdpPrefix* prefix) { prefix->kind_and_pad = 0x20; }, 16),  // a truncated probe
      with([](UdpPrefix* prefix) { prefix->kind_and_pad = 0x20; }, 40),  // a probe that is too long
  };
  for (const Bytes& datagram : bad) pair.SendToEndpoint(datagram);
  EXPECT_TRUE(Drain(pair.endpoint.get()).empty());
  EXPECT_EQ(pair.endpoint->counters().dropped(DropReason::kMalformed), bad.size());
  pair.SendToEndpoint(with(unchanged, 16));
  EXPECT_EQ(Collect(pair.endpoint.get(), 1)[0].bytes.size(), 8u);
}

TEST(Udp, ADatagramLongerThanABufferIsDroppedAndCounted) {
  UdpOptions options;
  options.max_frame_bytes = 1024;
  WithPlainPeer pair(options, {.address = "127.0.0.1:0", .gro = false});
  const UdpPrefix prefix = MakeUdpPrefix(DatagramKind::kFrame, 0, 1, 1);
  Bytes datagram(2048);
  std::memcpy(datagram.data(), &prefix, sizeof(prefix));
  pair.SendToEndpoint(datagram);
  EXPECT_TRUE(Drain(pair.endpoint.get()).empty());
  EXPECT_EQ(pair.endpoint->counters().dropped(DropReason::kMalformed), 1u);
}

// Sends a frame from `from` to node `to` until it arrives: frames are lost while the two do not
// know each other.
void ExpectDelivery(Transport* from, NodeId to, Transport* receiver) {
  const Bytes message = Numbered(to + 1);
  for (Guard guard; guard.Waiting("a frame of a peer that has moved");) {
    const OutFrame frame{to, {}, message};
    from->Send({&frame, 1});
    from->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
    const std::vector<Received> all = Drain(receiver);
    if (all.empty()) continue;
    EXPECT_EQ(all[0].from, from->info().node);
    EXPECT_EQ(all[0].bytes, message);
    return;
  }
}

std::unique_ptr<Transport> Endpoint(UdpSocket socket, NodeId node,
                                    const std::map<NodeId, std::string>& peers) {
  UdpOptions options;
  options.node = node;
  options.peers = peers;
  options.silence_ms = 100;
  options.max_frame_bytes = 1440;
  return ConnectUdp(std::move(socket), options);
}

TEST(Udp, ReachesPeersThatGetAnAddressAndThatMove) {
  UdpSocket own({.address = "127.0.0.1:0"});
  UdpSocket first({.address = "127.0.0.1:0"}), second({.address = "127.0.0.1:0"});
  const std::string own_text = own.local().Text();
  const std::string places[] = {first.local().Text(), second.local().Text()};
  const auto a = Endpoint(std::move(own), 0, {{1, ""}, {2, ""}});
  auto b = Endpoint(std::move(first), 1, {{0, own_text}, {2, ""}});
  // Nobody has an address: frames are dropped once the peers count as unresponsive.
  const Bytes message = Numbered(1);
  for (Guard guard; a->counters().dropped(DropReason::kUnreachable) == 0 &&
                    guard.Waiting("a peer without an address");) {
    const OutFrame frame{kAllNodes, {}, message};
    a->Send({&frame, 1});
    a->Wait(Soon(DefaultClock()), WaitFor::kReceiveOrSend);
  }
  EXPECT_TRUE(Drain(b.get()).empty());

  EXPECT_EQ(a->SetPeerAddress(1, places[0]), "");
  ExpectDelivery(a.get(), 1, b.get());
  ExpectDelivery(b.get(), 0, a.get());

  // Another process as the same node, elsewhere.
  b.reset();
  b = Endpoint(std::move(second), 1, {{0, own_text}, {2, ""}});
  EXPECT_EQ(a->SetPeerAddress(1, places[1]), "");
  ExpectDelivery(a.get(), 1, b.get());
  ExpectDelivery(b.get(), 0, a.get());

  // The address of node 1 becomes that of node 2.
  b.reset();
  EXPECT_EQ(a->SetPeerAddress(2, places[1]), "");
  const auto c = Endpoint(UdpSocket({.address = places[1]}), 2, {{0, own_text}, {1, ""}});
  ExpectDelivery(a.get(), 2, c.get());
  ExpectDelivery(c.get(), 0, a.get());
}

TEST(Udp, RefusesAnAddressThatItCannotUse) {
  UdpSocket own({.address = "127.0.0.1:0"});
  const std::string own_text = own.local().Text();
  const auto a = Endpoint(std::move(own), 0, {{1, "127.0.0.1:9"}});
  for (const std::string& text :
       {std::string("[::1]:9"), std::string("127.0.0.1:0"), std::string("host:9"),
        std::string("127.0.0.1"), std::string(), own_text}) {
    EXPECT_CONTAINS(a->SetPeerAddress(1, text), "expected IP address and port of another node");
  }
  EXPECT_EQ(a->SetPeerAddress(2, "127.0.0.1:10"), "there is no such node");
}

// With segmentation offload they are one message, which the receiving kernel keeps together.
TEST(Udp, FramesThatTravelTogetherArriveOneByOne) {
  Group group = Pair({});
  std::vector<Bytes> messages;
  while (messages.size() < 20) messages.push_back(Numbered(messages.size(), 1000));
  messages.back().resize(500);
  std::vector<OutFrame> batch;
  for (const Bytes& message : messages) batch.push_back({1, {}, message});
  ASSERT_EQ(group[0]->Send(batch).accepted, batch.size());
  const std::vector<Received> all = Collect(group[1].get(), batch.size());
  ASSERT_EQ(all.size(), batch.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].bytes, messages[i]);
}

TEST(Udp, AReceiverThatDoesNotReadStopsItsSenderAndLosesNothing) {
  for (const size_t bytes : {size_t{8}, size_t{1464}, size_t{8960}, size_t{65496}}) {
    for (const bool gso : {true, false}) {
      UdpOptions options;
      options.max_frame_bytes = static_cast<int64_t>(std::max<size_t>(bytes, 64));
      Group group = Pair(options, {.address = "127.0.0.1:0", .gso = gso, .gro = gso});
      ExpectThatAReceiverStopsItsSender(&group, bytes);
      EXPECT_EQ(group[1]->counters().dropped(DropReason::kOverrun), 0u);
    }
  }
}

TEST(Udp, WhatTheKernelDropsIsCounted) {
  UdpOptions options;
  options.max_frame_bytes = 1024;
  options.window_frames = 100'000;  // far above the capacity
  UdpSocketOptions socket = {.address = "127.0.0.1:0", .receive_buffer_bytes = 16384};
  socket.gso = socket.gro = false;
  Group group = Pair(options, socket);
  ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(0, 1024)));
  Collect(group[1].get(), 1);
  // Lets the sender prove its session, the last control message.
  group[0]->Wait(INT64_MIN, WaitFor::kReceive);
  EXPECT_TRUE(Drain(group[1].get()).empty());
  uint64_t sent = 1 + SendUntilBusy(group[0].get(), 1, Numbered(1, 1024), 500);
  Drain(group[1].get());
  // The kernel reports its drops together with datagrams that arrive later.
  ASSERT_TRUE(SendBytes(group[0].get(), 1, Numbered(2, 1024)));
  ++sent;
  Collect(group[1].get(), 1);
  const TransportCounters& counters = group[1]->counters();
  EXPECT_GT(counters.dropped(DropReason::kOverrun), 0u);
  EXPECT_EQ(counters.frames_received() + counters.dropped(DropReason::kOverrun), sent);
}

TEST(Udp, ALostCreditIsAskedFor) {
  FakeClock clock;
  UdpOptions options;
  options.clock = &clock;
  options.window_frames = 8;
  WithPlainPeer pair(options);
  EXPECT_EQ(SendUntilBusy(pair.endpoint.get(), 1, Numbered(1), 100), 8u);
  for (uint32_t number = 1; number <= 8; ++number) {
    if (number == 2) {
      EXPECT_EQ(pair.Next().kind, DatagramKind::kProbe) << "tells its session";
    }
    const Datagram frame = pair.Next();
    EXPECT_EQ(frame.kind, DatagramKind::kFrame);
    EXPECT_EQ(frame.sequence, number);
  }
  // The credit for them is lost. The time advances in Wait only.
  const auto wait = [&] {
    return pair.endpoint->Wait(clock.NowNs(), WaitFor::kReceiveOrSend).sendable;
  };
  EXPECT_FALSE(wait());
  EXPECT_EQ(pair.Next().kind, static_cast<DatagramKind>(15)) << "too early to ask";
  clock.AdvanceNs(2'000'000);
  EXPECT_FALSE(wait());
  const Datagram probe = pair.Next();
  EXPECT_EQ(probe.kind, DatagramKind::kProbe);
  EXPECT_EQ(probe.sequence, 8u);
  pair.SendCredit(probe.control.session ^ 1, 8, 8);
  EXPECT_FALSE(wait()) << "a credit for somebody else's frames";
  pair.SendCredit(probe.control.session, 8, 8);
  EXPECT_TRUE(wait());
  EXPECT_EQ(SendUntilBusy(pair.endpoint.get(), 1, Numbered(1), 100), 8u);
}

TEST(Udp, ALostWindowOfFramesIsMadeUpForByAnAnswer) {
  UdpOptions options;
  options.window_frames = 8;
  WithPlainPeer pair(options);
  pair.SendControl(DatagramKind::kProbe, {8, 9, 0, 0});
  EXPECT_TRUE(Drain(pair.endpoint.get()).empty());
  const Datagram credit = pair.Next();
  EXPECT_EQ(credit.kind, DatagramKind::kCredit);
  EXPECT_EQ(credit.sequence, 8u);
  EXPECT_EQ(credit.control.echo, 9u);
  EXPECT_EQ(credit.control.window, 8u);
  // The session is known and proven now. A different session must prove that it receives this
  // endpoint's datagrams.
  pair.SendControl(DatagramKind::kProbe, {8, 9, credit.control.session, 0});
  pair.SendControl(DatagramKind::kProbe, {3, 10, 0, 0});
  EXPECT_TRUE(Drain(pair.endpoint.get()).empty());
  const Datagram challenge = pair.Next(), again = pair.Next();
  EXPECT_EQ(challenge.control.echo, 10u);
  EXPECT_EQ(challenge.control.window, 0u);
  EXPECT_EQ(again.control.echo, 9u);
  EXPECT_EQ(again.control.window, 8u);
  pair.SendControl(DatagramKind::kProbe, {3, 10, challenge.control.session, 0});
  EXPECT_TRUE(Drain(pair.endpoint.get()).empty());
  EXPECT_EQ(pair.Next().control.echo, 10u);
}

TEST(Udp, FramesToAPeerThatNeverAnswersAreDroppedUntilItDoes) {
  FakeClock clock;
  UdpOptions options;
  options.clock = &clock;
  options.window_frames = 8;
  options.silence_ms = 50;
  WithPlainPeer pair(options);
  EXPECT_EQ(SendUntilBusy(pair.endpoint.get(), 1, Numbered(1), 100), 8u);
  pair.Next();
  const uint64_t session = pair.Next().control.session;
  pair.endpoint->Wait(clock.NowNs(), WaitFor::kReceive);
  clock.AdvanceNs(50'000'000);
  EXPECT_TRUE(pair.endpoint->Wait(clock.NowNs(), WaitFor::kReceiveOrSend).sendable);
  EXPECT_EQ(SendUntilBusy(pair.endpoint.get(), 1, Numbered(1), 100), 100u);
  EXPECT_EQ(pair.endpoint->counters().dropped(DropReason::kUnreachable), 100u);
  pair.SendCredit(session, 8, 8);
  pair.endpoint->Wait(clock.NowNs(), WaitFor::kReceive);
  EXPECT_EQ(SendUntilBusy(pair.endpoint.get(), 1, Numbered(1), 100), 8u);
}

TEST(Udp, ANodeThatComesBackIsSentTo) {
  UdpOptions options;
  options.window_frames = 8;
  options.silence_ms = 20;
  options.node = 0;
  UdpSocket first({.address = "127.0.0.1:0"}), second({.address = "127.0.0.1:0"});
  const std::string addresses[] = {first.local().Text(), second.local().Text()};
  options.peers = {{1, addresses[1]}};
  auto sender = ConnectUdp(std::move(first), options);
  options.node = 1;
  options.peers = {{0, addresses[0]}};
  auto receiver = ConnectUdp(std::move(second), options);
  for (uint64_t incarnation = 0; incarnation < 3; ++incarnation) {
    bool arrived = false;
    for (Guard guard; !arrived && guard.Waiting("the node that came back");) {
      ASSERT_TRUE(SendBytes(sender.get(), 1, Numbered(incarnation)));
      for (const Received& frame : Drain(receiver.get())) {
        arrived |= NumberOf(frame.bytes) == incarnation;
      }
    }
    receiver.reset();
    for (int i = 0; i < 20; ++i) SendBytes(sender.get(), 1, Numbered(100));
    EXPECT_GT(sender->counters().dropped(DropReason::kUnreachable), 0u);
    receiver = ConnectUdp(UdpSocket({.address = addresses[1]}), options);
  }
}

TEST(Udp, FramesGoOutOneByOneWhereSegmentationFails) {
  UdpSocket sender({.address = "127.0.0.1:0"}), receiver({.address = "127.0.0.1:0"});
  if (!sender.gso()) GTEST_SKIP() << "this kernel has no UDP_SEGMENT";
  // Without checksums the kernel refuses to segment (EIO), as on a path whose device cannot.
  const int on = 1;
  ASSERT_EQ(setsockopt(sender.fd(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)), 0);
  UdpOptions options;
  options.max_frame_bytes = 1464;
  const std::string addresses[] = {sender.local().Text(), receiver.local().Text()};
  options.peers = {{1, addresses[1]}};
  auto a = ConnectUdp(std::move(sender), options);
  options.node = 1;
  options.peers = {{0, addresses[0]}};
  auto b = ConnectUdp(std::move(receiver), options);
  // The first frame is too short to share a message with the others, and is sent before they fail.
  std::vector<Bytes> messages = {Numbered(0)};
  while (messages.size() < 20) messages.push_back(Numbered(messages.size(), 1000));
  std::vector<OutFrame> batch;
  for (const Bytes& message : messages) batch.push_back({1, {}, message});
  EXPECT_EQ(a->Send(batch).accepted, 20u);
  const std::vector<Received> all = Collect(b.get(), 20);
  ASSERT_EQ(all.size(), 20u);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(NumberOf(all[i].bytes), i);
  EXPECT_EQ(a->counters().dropped(DropReason::kFailed), 0u);
}

TEST(Udp, AFrameThatTheKernelWillNotSendIsDroppedAndCounted) {
  UdpOptions options;
  UdpSocket socket({.address = "127.0.0.1:0"});
  // Shut down for sending.
  ASSERT_TRUE(shutdown(socket.fd(), SHUT_WR) == 0 || errno == ENOTCONN);
  options.peers = {{1, "127.0.0.1:9"}};
  auto endpoint = ConnectUdp(std::move(socket), options);
  const Bytes message = Numbered(1);
  EXPECT_TRUE(SendBytes(endpoint.get(), 1, message));
  EXPECT_EQ(endpoint->counters().dropped(DropReason::kFailed), 1u);
}

}  // namespace
}  // namespace millrace::test
