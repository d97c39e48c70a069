// Error texts of the verbs transport for bad options; needs no device.
#include <gtest/gtest.h>

#include <string>

#include "millrace/transport_registry.h"
#include "test/transport/create_error.h"

namespace millrace::test {
namespace {

std::string VerbsError(const OptionTexts& options) {
  return OptionError("verbs", options,
                     {{"address", "127.0.0.1:7700"}, {"peers", "1=127.0.0.2:7700"}});
}

TEST(Verbs, BadOptionsAreOneLineNamingTheOption) {
  const std::string reason = TransportRegistry::Get().WhyNot("verbs");
  if (!reason.empty()) GTEST_SKIP() << reason;
  EXPECT_CONTAINS(VerbsError({{"address", "here"}}), "address");
  EXPECT_CONTAINS(VerbsError({{"peers", "127.0.0.2:7700"}}), "expected NODE=HOST:PORT");
  EXPECT_CONTAINS(VerbsError({{"peers", "0=127.0.0.2:7700"}}), "the id of another node");
  EXPECT_CONTAINS(VerbsError({{"peers", "1=127.0.0.1:7700"}}), "node 0 has this address already");
  EXPECT_CONTAINS(VerbsError({{"peers", "1=127.0.0.2:0"}}), "expected a port from 1 to 65535");
  EXPECT_CONTAINS(VerbsError({{"peers", "1=[::1]:7700"}}), "an address of the family of this");
  EXPECT_CONTAINS(VerbsError({{"group", "65536"}}), "group=65536: expected an integer");
  EXPECT_CONTAINS(VerbsError({{"multicast", "yes"}}), "multicast=yes: expected auto, on or off");
  EXPECT_CONTAINS(VerbsError({{"max_frame_bytes", "63"}}), "max_frame_bytes=63: expected");
  EXPECT_CONTAINS(VerbsError({{"window_frames", "0"}}), "window_frames=0: expected");
  EXPECT_CONTAINS(VerbsError({{"receive_buffers", "15"}}), "receive_buffers=15: expected");
  EXPECT_CONTAINS(VerbsError({{"send_slots", "40000"}}), "send_slots=40000: expected");
  EXPECT_CONTAINS(VerbsError({{"silence_ms", "0"}}), "silence_ms=0: expected");
  EXPECT_CONTAINS(VerbsError({{"interface", "eth0"}}), "unknown option interface");
}

}  // namespace
}  // namespace millrace::test
