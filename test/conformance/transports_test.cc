// The transports of every build, and stacks of them, in the suite of all.
#include "test/conformance/cases.h"
#include "test/conformance/suite.h"

namespace millrace::test {

INSTANTIATE_TEST_SUITE_P(Transports, TransportTest,
                         testing::Values(LoopbackCase(), LateCase(), FaultlessCase(LoopbackCase())),
                         CaseName);

}  // namespace millrace::test
