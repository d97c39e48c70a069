// Registers the packet transport.
#include "millrace/transport_registry.h"
#include "transport/credited_endpoint.h"
#include "transport/packet/transport.h"
#include "transport/packet/wire.h"

namespace millrace::inline transport {
namespace {

TransportAddressing EthernetAddressing() {
  TransportAddressing addressing;
  addressing.keys = {
      {.name = "interface", .noun = "interface", .expected = "the network interface of $ for"},
      {.name = "mac",
       .noun = "MAC address",
       .expected = "the MAC address by which the peers of $ reach it in"}};
  addressing.locate = [](const AdapterFields& adapter, int) { return adapter.mac; };
  addressing.own_option = "interface";
  addressing.own_is_interface = true;
  return addressing;
}

TransportDescriptor PacketDescriptor() {
  TransportDescriptor packet;
  packet.name = "packet";
  packet.description = "raw Ethernet frames on one network without routers";
  packet.privilege = "CAP_NET_RAW";
  packet.reach = TransportReach::kNetwork;
  packet.addressing = EthernetAddressing();
  packet.has_group = true;
  packet.options = {"interface",     "peers",       "group",       "max_frame_bytes",
                    "window_frames", "block_bytes", "ring_blocks", "send_buffer_bytes",
                    "silence_ms"};
  packet.segment_options = CreditedSegmentOptions();
  packet.frame_bytes = [](int64_t mtu, auto) {
    return mtu - static_cast<int64_t>(kPacketPrefixBytes);
  };
  packet.stays_on_host = [](const AdapterFields& own) { return own.interface == "lo"; };
  return packet;
}

const RegisterTransport packet(PacketDescriptor(), MakePacket);

}  // namespace
}  // namespace millrace::inline transport
