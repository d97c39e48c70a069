// The transport suite for a plugin, as a program of its own that is built with an installed copy of
// Millrace (test/tools/plugin_cluster_test.cc) and linked with the plugin.
#include "test/conformance/unix_transport.h"

#include "test/conformance/suite.h"

namespace millrace::test {

INSTANTIATE_TEST_SUITE_P(Unix, TransportTest, testing::Values(UnixCase()), CaseName);

}  // namespace millrace::test
