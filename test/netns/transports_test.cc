// The transport suites between emulated machines, at both usual MTUs.
#include "test/conformance/fault_suite.h"
#include "test/conformance/suite.h"
#include "test/netns/packet_cases.h"
#include "test/netns/udp_cases.h"

namespace millrace::test {

INSTANTIATE_TEST_SUITE_P(UdpAcross, TransportTest,
                         testing::Values(AcrossCase(1500, true), AcrossCase(1500, false),
                                         AcrossCase(9000, true), AcrossCase(9000, false)),
                         CaseName);

INSTANTIATE_TEST_SUITE_P(Packet, TransportTest, testing::Values(PacketCase(1500), PacketCase(9000)),
                         CaseName);

INSTANTIATE_TEST_SUITE_P(PacketFaults, FaultTest,
                         testing::Combine(testing::Values(PacketCase(1500)),
                                          testing::ValuesIn(SingleFaults()),
                                          testing::Values(Direction::kSend, Direction::kReceive)),
                         FaultCaseName);

}  // namespace millrace::test
