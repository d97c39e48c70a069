// The transports of every build under faults.
#include "test/conformance/cases.h"
#include "test/conformance/fault_suite.h"
#include "test/conformance/udp_cases.h"
#include "test/conformance/unix_transport.h"

namespace millrace::test {

INSTANTIATE_TEST_SUITE_P(Faults, FaultTest,
                         testing::Combine(testing::Values(LoopbackCase(), LateCase(),
                                                          MuchLaterCase()),
                                          testing::ValuesIn(SingleFaults()),
                                          testing::Values(Direction::kSend, Direction::kReceive)),
                         FaultCaseName);

INSTANTIATE_TEST_SUITE_P(UdpFaults, FaultTest,
                         testing::Combine(testing::Values(UdpCases()[0], UdpCases()[1],
                                                          UdpCases()[3]),
                                          testing::ValuesIn(SingleFaults()),
                                          testing::Values(Direction::kSend, Direction::kReceive)),
                         FaultCaseName);

INSTANTIATE_TEST_SUITE_P(UnixFaults, FaultTest,
                         testing::Combine(testing::Values(UnixCase()),
                                          testing::ValuesIn(SingleFaults()),
                                          testing::Values(Direction::kSend, Direction::kReceive)),
                         FaultCaseName);

}  // namespace millrace::test
