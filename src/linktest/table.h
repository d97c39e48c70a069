// The text output of `millrace bench`.
#ifndef MILLRACE_LINKTEST_TABLE_H_
#define MILLRACE_LINKTEST_TABLE_H_

#include <string>

#include "millrace/export.h"
#include "proto/bench.pb.h"

namespace millrace::inline linktest {

// Summary lines, then for each segment a table of its flows between nodes and a table of its ends,
// then a table of the nodes. At most 100 columns unless names exceed 12 characters. "-" stands for
// an unknown value.
MILLRACE_API std::string BenchTable(const BenchResult& result);

}  // namespace millrace::inline linktest

#endif  // MILLRACE_LINKTEST_TABLE_H_
