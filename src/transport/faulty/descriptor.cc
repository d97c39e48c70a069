// Registers the faulty transport.
#include "millrace/transport_registry.h"
#include "transport/faulty/transport.h"

namespace millrace::inline transport {
namespace {

TransportDescriptor FaultyDescriptor() {
  TransportDescriptor faulty;
  faulty.name = "faulty";
  faulty.description = "another transport with the faults of a network, for tests";
  faulty.reach = TransportReach::kDecorated;
  faulty.options = {"over",         "seed",           "delay_min_us",
                    "delay_max_us", "reorder_frames", "hold_frames"};
  faulty.passes_options = true;
  faulty.frame_bytes = [](int64_t mtu, auto) { return mtu; };
  return faulty;
}

const RegisterTransport faulty(FaultyDescriptor(), MakeFaulty);

}  // namespace
}  // namespace millrace::inline transport
