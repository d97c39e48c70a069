// A small mutating fuzzer: each run takes one of the seeds given, changes some
// bytes, and calls Target. A target fails by crashing (run under sanitizers) or
// by returning false. Same --seed, same runs.
#ifndef MILLRACE_TEST_FUZZ_SUPPORT_FUZZ_H_
#define MILLRACE_TEST_FUZZ_SUPPORT_FUZZ_H_

#include <string>
#include <vector>

namespace millrace::fuzz {

// Defined by each fuzzer.
std::vector<std::string> Corpus();
// Whether the property held: the input was accepted, or refused with an Error.
bool Target(const std::string& input);

}  // namespace millrace::fuzz

#endif  // MILLRACE_TEST_FUZZ_SUPPORT_FUZZ_H_
