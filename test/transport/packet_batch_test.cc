// Encoding and parsing of Ethernet frames, over a pair of sockets that need no privilege.
#include "transport/packet/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "millrace/file_descriptor.h"
#include "transport/socket_option.h"

namespace millrace {
namespace {

PacketHead HeadOf(uint32_t sequence, size_t bytes) {
  PacketPrefix prefix;
  prefix.sequence = sequence;
  prefix.bytes = static_cast<uint16_t>(bytes);
  return MakePacketHead(EthernetHeader{}, prefix);
}

struct Read {
  EthernetHeader ethernet;
  PacketPrefix prefix;
  Datagram datagram;
};

bool Parse(std::span<const std::byte> packet, Read* read) {
  return ParsePacket(packet, &read->ethernet, &read->prefix, &read->datagram);
}

// Devices pad short frames.
TEST(PacketWire, PaddingIsNoPartOfAFrame) {
  std::vector<std::byte> packet(60, std::byte{0xee});
  const PacketHead head = HeadOf(7, 3);
  std::copy(head.begin(), head.end(), packet.begin());
  Read read;
  ASSERT_TRUE(Parse(packet, &read));
  EXPECT_EQ(read.datagram.sequence, 7u);
  EXPECT_EQ(read.datagram.bytes.data(), packet.data() + kPacketHeadBytes);
  EXPECT_EQ(read.datagram.bytes.size(), 3u);
  EXPECT_FALSE(Parse(std::span(packet).first(kPacketHeadBytes + 2), &read)) << "cut off";
}

class PacketBatchTest : public testing::Test {
 protected:
  static constexpr size_t kFrames = PacketBatch::kMaxFrames, kBytes = 1000;

  PacketBatchTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends), 0);
    sender_ = FileDescriptor(ends[0]);
    receiver_ = FileDescriptor(ends[1]);
    SetSocketInt(sender_.get(), SOL_SOCKET, SO_SNDBUF, 16 * kBytes);
    for (size_t i = 0; i < kFrames; ++i) payloads_.emplace_back(kBytes, static_cast<char>(i));
  }
  void Add(PacketBatch* batch, size_t i) {
    const auto bytes = std::as_bytes(std::span(payloads_[i].data(), kBytes));
    batch->Add(HeadOf(static_cast<uint32_t>(i), kBytes), {0, bytes.first(16), bytes.subspan(16)});
  }
  // Receives the frames that have arrived; they must be complete.
  void Receive() {
    std::vector<std::byte> packet(2 * kBytes);
    for (ssize_t got; (got = recv(receiver_.get(), packet.data(), packet.size(), 0)) >= 0;) {
      Read read;
      ASSERT_TRUE(Parse(std::span(packet).first(static_cast<size_t>(got)), &read));
      const auto bytes = read.datagram.bytes;
      ASSERT_EQ(read.datagram.sequence, received_.size());
      ASSERT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                payloads_[received_.size()]);
      received_.push_back(read.datagram.sequence);
    }
  }

  FileDescriptor sender_, receiver_;
  std::vector<std::string> payloads_;
  std::vector<uint32_t> received_;
};

TEST_F(PacketBatchTest, WhatFindsAFullQueueIsNotSent) {
  PacketBatch batch(sender_.get());
  size_t sent = 0, busy = 0;
  while (sent < kFrames) {
    for (size_t i = sent; i < kFrames; ++i) Add(&batch, i);
    const DatagramLink::Flushed flushed = batch.Flush();
    EXPECT_EQ(flushed.bytes, flushed.frames * kBytes);
    EXPECT_EQ(flushed.failed, 0u);
    EXPECT_FALSE(flushed.of_device);
    EXPECT_EQ(flushed.busy, sent + flushed.frames < kFrames);
    sent += flushed.frames;
    busy += flushed.busy;
    Receive();
    ASSERT_EQ(received_.size(), sent);
  }
  EXPECT_GT(busy, 0u);
}

TEST_F(PacketBatchTest, WhatTheKernelWillNotSendIsCountedAndGivenUp) {
  receiver_ = FileDescriptor();
  PacketBatch batch(sender_.get());
  for (size_t i = 0; i < 3; ++i) Add(&batch, i);
  const DatagramLink::Flushed flushed = batch.Flush();
  EXPECT_EQ(flushed.frames, 3u);
  EXPECT_EQ(flushed.failed, 3u);
  EXPECT_FALSE(flushed.busy);
}

}  // namespace
}  // namespace millrace
