// Nets on which layers for GPUs are compared with the same layers on the host (gpu_layers_test.cc).
#ifndef MILLRACE_TEST_NN_GPU_CASES_H_
#define MILLRACE_TEST_NN_GPU_CASES_H_

#include <ostream>
#include <string>
#include <vector>

#include "millrace/layer.h"

namespace millrace::test {

struct GpuCase {
  std::string name;    // of the test: letters and digits
  std::string layers;  // from blob "x" (and "label") to a loss layer named 'loss', or to blob "y"
  std::string shape = "4 6 7 9";  // of "x"; "label" has its first number
  caffe::Phase phase = caffe::TRAIN;
  bool to_input = true;  // the gradient flows to "x"
};

inline void PrintTo(const GpuCase& each, std::ostream* out) { *out << each.name; }

// A layer with one bottom and one top, named for its type; `param` is the rest of its text.
std::string LayerText(const std::string& type, const std::string& param,
                      const std::string& bottom = "x", const std::string& top = "y");

// All that have been registered.
std::vector<GpuCase>& GpuCases();

// Define one at namespace scope.
struct RegisterGpuCases {
  explicit RegisterGpuCases(const std::vector<GpuCase>& cases);
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NN_GPU_CASES_H_
