// Registers the loopback transport.
#include "millrace/transport_registry.h"
#include "transport/loopback/transport.h"

namespace millrace::inline transport {
namespace {

TransportDescriptor LoopbackDescriptor() {
  TransportDescriptor loopback;
  loopback.name = "loopback";
  loopback.description = "bounded queues between the threads of one process";
  loopback.reach = TransportReach::kProcess;
  loopback.options = {"hub", "nodes", "queue_frames", "max_frame_bytes"};
  loopback.frame_bytes = [](int64_t mtu, auto) { return mtu; };
  loopback.stays_on_host = [](const AdapterFields&) { return true; };
  return loopback;
}

const RegisterTransport loopback(LoopbackDescriptor(), MakeLoopback);

}  // namespace
}  // namespace millrace::inline transport
