// Files of named arrays for fuzzers.
#ifndef MILLRACE_TEST_FUZZ_SUPPORT_ARRAYS_H_
#define MILLRACE_TEST_FUZZ_SUPPORT_ARRAYS_H_

#include <string>
#include <vector>

#include "model/arrays/array_file.h"

namespace millrace::fuzz {

std::vector<NamedArray> SomeArrays();
// An .npz as numpy.savez_compressed writes it, with an array in column-major order.
std::string DeflatedNpz();

// Whether `parse` gives arrays that are as long as their shapes say and that `write` can write, or
// throws an Error of one line that begins with the path.
bool ParsesOrNames(ArrayParser parse,
                   std::string (*write)(const std::vector<NamedArray>&, const std::string&),
                   const std::string& input);

}  // namespace millrace::fuzz

#endif  // MILLRACE_TEST_FUZZ_SUPPORT_ARRAYS_H_
