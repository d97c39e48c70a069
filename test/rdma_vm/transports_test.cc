// The transport suites over RDMA devices.
#include "test/conformance/fault_suite.h"
#include "test/conformance/suite.h"
#include "test/rdma_vm/verbs_cases.h"

namespace millrace::test {

INSTANTIATE_TEST_SUITE_P(Verbs, TransportTest,
                         testing::Values(VerbsCase("Multicast", VerbsMulticast::kOn),
                                         VerbsCase("Copies", VerbsMulticast::kOff)),
                         CaseName);

INSTANTIATE_TEST_SUITE_P(VerbsFaults, FaultTest,
                         testing::Combine(testing::Values(VerbsCase("Multicast",
                                                                    VerbsMulticast::kOn)),
                                          testing::ValuesIn(SingleFaults()),
                                          testing::Values(Direction::kSend, Direction::kReceive)),
                         FaultCaseName);

}  // namespace millrace::test
