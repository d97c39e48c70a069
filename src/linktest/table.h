// What `millrace bench` prints for people.
#ifndef MILLRACE_LINKTEST_TABLE_H_
#define MILLRACE_LINKTEST_TABLE_H_

#include <string>

#include "proto/bench.pb.h"

namespace millrace {

// Some lines on the whole, then for each segment a table of what each node sends to each
// other and one of its ends, then one of the nodes. At most 100 columns, unless names are
// longer than 12 characters. What is not known is "-".
std::string BenchTable(const BenchResult& result);

}  // namespace millrace

#endif  // MILLRACE_LINKTEST_TABLE_H_
