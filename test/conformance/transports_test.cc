// The transports of every build, and stacks of them, in the transport suite.
#include "test/conformance/cases.h"
#include "test/conformance/suite.h"
#include "test/conformance/udp_cases.h"
#include "test/conformance/unix_transport.h"

namespace millrace::test {

INSTANTIATE_TEST_SUITE_P(Transports, TransportTest,
                         testing::Values(LoopbackCase(), LateCase(), MemoryCase(),
                                         FaultlessCase(LoopbackCase())),
                         CaseName);

INSTANTIATE_TEST_SUITE_P(Unix, TransportTest, testing::Values(UnixCase()), CaseName);
INSTANTIATE_TEST_SUITE_P(Udp, TransportTest, testing::ValuesIn(UdpCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(FaultlessUdp, TransportTest, testing::Values(FaultlessCase(UdpCases()[0])),
                         CaseName);

}  // namespace millrace::test
