// Error texts of the packet transport for bad options; needs no privilege.
#include "transport/packet/transport.h"

#include "test/transport/create_error.h"
#include "transport/network_device.h"

namespace millrace::test {
namespace {

// Without any other error, the loopback device is refused.
std::string PacketError(const OptionTexts& options) {
  return OptionError("packet", options, {{"interface", "lo"}, {"peers", "1=02:00:00:00:00:01"}});
}

TEST(Packet, BadOptionsAreOneLineNamingTheOption) {
  EXPECT_CONTAINS(PacketError({}), "interface=lo: this is the loopback device");
  EXPECT_CONTAINS(PacketError({{"interface", "none0"}}), "interface=none0: there is no such");
  EXPECT_CONTAINS(PacketError({{"peers", "02:00:00:00:00:01"}}),
                  "peers: 02:00:00:00:00:01: expected NODE=xx:xx:xx:xx:xx:xx");
  EXPECT_CONTAINS(PacketError({{"peers", "1=10.0.0.1:7"}}),
                  "peers: 1=10.0.0.1:7: expected the Ethernet address of a device");
  EXPECT_CONTAINS(PacketError({{"peers", "1=03:00:00:00:00:01"}}), "address of a device");
  EXPECT_CONTAINS(PacketError({{"peers", "1=00:00:00:00:00:00"}}), "address of a device");
  EXPECT_CONTAINS(PacketError({{"peers", "0=02:00:00:00:00:01"}}), "the id of another node");
  EXPECT_CONTAINS(PacketError({{"peers", "1=02:00:00:00:00:01,2=02:00:00:00:00:01"}}),
                  "2=02:00:00:00:00:01: node 1 has this address already");
  EXPECT_CONTAINS(PacketError({{"group", "65536"}}), "group=65536: expected an integer");
  EXPECT_CONTAINS(PacketError({{"max_frame_bytes", "63"}}), "max_frame_bytes=63: expected");
  EXPECT_CONTAINS(PacketError({{"window_frames", "0"}}), "window_frames=0: expected");
  EXPECT_CONTAINS(PacketError({{"ring_blocks", "1"}}), "ring_blocks=1: expected");
  EXPECT_CONTAINS(PacketError({{"block_bytes", "-1"}}), "block_bytes=-1: expected");
  EXPECT_CONTAINS(PacketError({{"send_buffer_bytes", "1"}}), "send_buffer_bytes=1: expected");
  EXPECT_CONTAINS(PacketError({{"silence_ms", "0"}}), "silence_ms=0: expected");
  EXPECT_CONTAINS(PacketError({{"port", "7"}}), "unknown option port");
}

TEST(Packet, ReadsEthernetAddresses) {
  EXPECT_EQ(ParseMacAddress("02:00:5E:00:53:af")->Text(), "02:00:5e:00:53:af");
  for (const char* text : {"", "02:00:5e:00:53", "02:00:5e:00:53:a", "02:00:5e:00:53:0g",
                           "02-00-5e-00-53-01", "02:00:5e:00:53:01:", "02:00:5e:00:53: 1"}) {
    EXPECT_FALSE(ParseMacAddress(text)) << text;
  }
  EXPECT_TRUE(ParseMacAddress("02:00:5e:00:53:01")->IsUnicast());
  EXPECT_FALSE(ParseMacAddress("ff:ff:ff:ff:ff:ff")->IsUnicast());
}

}  // namespace
}  // namespace millrace::test
