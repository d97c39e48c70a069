// cuBLAS and cuDNN without GPUs: tables of functions (nn/gpu/cuda_api.h) that check everything they
// are given, compute with plain loops in the memory of the fake runtime (fake_cuda.h), and note the
// work that they enqueue there.
#ifndef MILLRACE_TEST_CUDA_FAKE_LIBRARIES_H_
#define MILLRACE_TEST_CUDA_FAKE_LIBRARIES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nn/gpu/cuda_api.h"

namespace millrace::test {

const CublasApi& FakeCublas();
const CudnnApi& FakeCudnn();

// A proposal of cuDNN's heuristics for any pass.
struct FakeProposal {
  int algorithm;
  cudnnMathType_t math = CUDNN_FMA_MATH;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  size_t memory = 0;
};

// How the libraries behave, and what they have seen. Not thread-safe.
struct FakeLibraries {
  static FakeLibraries& Get();
  void Reset() { *this = FakeLibraries(); }

  std::vector<FakeProposal> proposals = {{1}};
  std::map<int, size_t> workspace;  // bytes that an algorithm needs; 0 if it is not listed
  std::set<int> unknown, refuses;   // algorithms that have no workspace size; that refuse to work
  // Algorithms that are accepted, and fail at their work; as part of which the device may fail.
  std::map<int, cudnnStatus_t> fails;
  bool device_fails = false;
  // What measurements find: algorithms with their milliseconds. Those in the sets above fail there,
  // too. when_measured() is called at the end of each, if it is set.
  std::map<int, float> times;
  std::function<void()> when_measured;
  uint64_t fails_at = UINT64_MAX;  // number from 0 of the call that fails
  bool fails_for_memory = false;   // for lack of memory
  size_t version = 90000;          // of cuDNN

  cudnnMathType_t math = CUDNN_FMA_MATH;            // of convolutions, or they are wrong
  cublasMath_t product_math = CUBLAS_DEFAULT_MATH;  // that was set
  // Algorithms that exist, or work, for float32 only.
  std::set<int> unknown_in_bfloat16, refuses_bfloat16;

  // Of products with a bias.
  bool has_biased = true;          // the heuristics know an algorithm
  bool refuses_biased = false;     // which refuses its work
  size_t biased_workspace = 1024;  // bytes that it needs, where it may have them; else 0
  cublasComputeType_t biased_compute = CUBLAS_COMPUTE_32F;  // of the last
  std::vector<size_t> given_biased;                         // bytes of workspace, by product

  uint64_t calls = 0;
  int handles = 0, descriptors = 0;    // that exist
  int proposals_asked = 0;             // calls of the heuristics
  int measured = 0;                    // measurements
  int products_in_own_memory = 0;      // of cuBLAS
  std::vector<int> used;               // algorithms, in the order of their work
  std::vector<cudnnDataType_t> types;  // of the arrays, as above
  std::vector<size_t> given;           // bytes of workspace, as above
  std::vector<std::string> wrong;      // what a library would have refused or overrun
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CUDA_FAKE_LIBRARIES_H_
