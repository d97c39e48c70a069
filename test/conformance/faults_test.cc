// The transports of every build under faults.
#include "test/conformance/cases.h"
#include "test/conformance/fault_suite.h"

namespace millrace::test {

INSTANTIATE_TEST_SUITE_P(Faults, FaultTest,
                         testing::Combine(testing::Values(LoopbackCase(), LateCase()),
                                          testing::ValuesIn(SingleFaults()),
                                          testing::Values(Direction::kSend, Direction::kReceive)),
                         FaultCaseName);

}  // namespace millrace::test
