// Which drops of a UDP socket count as checksum errors.
#include "transport/udp/checksum_errors.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "test/conformance/udp_cases.h"

namespace millrace::test {
namespace {

constexpr const char kSnmp[] =
    "Ip: Forwarding InReceives\nIp: 1 7\n"
    "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\n"
    "Udp: 100 2 9 100 4 0 5\n"
    "UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\n"
    "UdpLite: 0 0 0 0 99 0 99\n";
constexpr const char kSnmp6[] =
    "Ip6InReceives \t7\nUdp6InErrors\t9\nUdp6RcvbufErrors                \t4\n"
    "Udp6SndbufErrors\t0\nUdp6InCsumErrors                \t5\nUdpLite6InCsumErrors\t99\n";

TEST(UdpChecksumErrors, ReadsTheKernelsCountsOfBothVersionsOfIp) {
  for (const bool is_v6 : {false, true}) {
    const auto counts = ParseUdpErrors(is_v6 ? kSnmp6 : kSnmp, is_v6);
    ASSERT_TRUE(counts);
    EXPECT_EQ(counts->checksum, 5u);
    EXPECT_EQ(counts->no_room, 4u);
  }
}

TEST(UdpChecksumErrors, ATextWithoutThemSaysNothing) {
  for (const char* text : {"", "Udp:", "Udp: InCsumErrors\nUdp: 5\n", "Udp: A\nIp: 5\n",
                           "Udp: InCsumErrors RcvbufErrors\nUdp: 5 x\n",
                           "Udp: InCsumErrors RcvbufErrors\nUdp: 5 6x\n"}) {
    EXPECT_FALSE(ParseUdpErrors(text, false)) << text;
    EXPECT_FALSE(ParseUdpErrors(text, true)) << text;
  }
}

TEST(UdpChecksumErrors, DropsAreClassified) {
  UdpDropClassifier classifier({10, 20});
  EXPECT_EQ(classifier.Classify(3, {13, 20}), 3u);   // all of them
  EXPECT_EQ(classifier.Classify(4, {13, 24}), 0u);   // none
  EXPECT_EQ(classifier.Classify(5, {15, 27}), 2u);   // some
  EXPECT_EQ(classifier.Classify(64, {18, 28}), 3u);  // one drop for lack of room had many segments
  EXPECT_EQ(classifier.Classify(2, {25, 30}),
            0u);  // no room; the checksum errors belong to another socket
}

// The kernel reports a socket's drops later than those of the namespace.
TEST(UdpChecksumErrors, DropsThatAreReadLaterAreClassifiedAsWell) {
  UdpDropClassifier classifier({0, 0});
  EXPECT_EQ(classifier.Classify(1, {3, 0}), 1u);
  EXPECT_EQ(classifier.Classify(2, {3, 0}), 2u);
  EXPECT_EQ(classifier.Classify(1, {3, 4}), 0u);
  EXPECT_EQ(classifier.Classify(3, {3, 4}), 0u);
  // Unexplained errors of another socket expire.
  EXPECT_EQ(classifier.Classify(1, {50, 5}), 0u);
  EXPECT_EQ(classifier.Classify(1, {50, 6}), 0u);
  EXPECT_EQ(classifier.Classify(1, {50, 6}), 0u);
}

// Sends UDP datagrams with any checksum, which needs CAP_NET_RAW.
class RawSender {
 public:
  explicit RawSender(uint16_t from, const InetAddress& to)
      : fd_(socket(AF_INET, SOCK_RAW, IPPROTO_UDP)), from_(from), to_(to) {}
  bool works() const { return fd_.get() >= 0; }
  void Send(const Bytes& payload, uint16_t checksum) {
    const auto length = static_cast<uint16_t>(8 + payload.size());
    const uint16_t header[] = {htons(from_), htons(to_.port()), htons(length), htons(checksum)};
    Bytes packet(length);
    std::memcpy(packet.data(), header, sizeof(header));
    std::copy(payload.begin(), payload.end(), packet.begin() + sizeof(header));
    EXPECT_EQ(sendto(fd_.get(), packet.data(), packet.size(), 0, &to_.any, to_.length()),
              static_cast<ssize_t>(packet.size()));
  }

 private:
  const FileDescriptor fd_;
  const uint16_t from_;
  const InetAddress to_;
};

TEST(Udp, DatagramsWithWrongChecksumsAreCountedAsSuch) {
  UdpSocket socket({.address = "127.0.0.1:0"}), peer({.address = "127.0.0.1:0"});
  const InetAddress address = socket.local();
  RawSender raw(peer.local().port(), address);
  if (!raw.works()) GTEST_SKIP() << "raw sockets need CAP_NET_RAW";
  UdpOptions options;
  options.node = 0;
  options.peers = {{1, peer.local().Text()}};
  auto endpoint = ConnectUdp(std::move(socket), options);
  // For datagrams of 76 bytes or less the kernel checks the sum before it looks up the socket.
  for (int i = 0; i < 5; ++i) raw.Send(Numbered(1, 1000), 0x1234);
  EXPECT_TRUE(Drain(endpoint.get()).empty());
  // The kernel reports its drops together with datagrams that arrive later.
  options.node = 1;
  options.peers = {{0, address.Text()}};
  auto sender = ConnectUdp(std::move(peer), options);
  ASSERT_TRUE(SendBytes(sender.get(), 0, Numbered(2)));
  EXPECT_EQ(Collect(endpoint.get(), 1).size(), 1u);
  EXPECT_TRUE(Drain(endpoint.get()).empty());
  EXPECT_EQ(endpoint->counters().dropped(DropReason::kBadChecksum), 5u);
  EXPECT_EQ(endpoint->counters().dropped(DropReason::kOverrun), 0u);
}

}  // namespace
}  // namespace millrace::test
