// A small mutation fuzzer. Each run changes some bytes of a seed and calls Target. A run fails if
// Target crashes (under sanitizers) or returns false. The same --seed gives the same runs.
#ifndef MILLRACE_TEST_FUZZ_SUPPORT_FUZZ_H_
#define MILLRACE_TEST_FUZZ_SUPPORT_FUZZ_H_

#include <string>
#include <vector>

namespace millrace::fuzz {

// Defined by each fuzzer.
std::vector<std::string> Corpus();
// Whether the tested property holds. A rejected input counts as success.
bool Target(const std::string& input);

}  // namespace millrace::fuzz

#endif  // MILLRACE_TEST_FUZZ_SUPPORT_FUZZ_H_
