// What the fakes of cuBLAS and cuDNN share: handles, and checks of what they are given.
#ifndef MILLRACE_TEST_CUDA_FAKE_HANDLES_H_
#define MILLRACE_TEST_CUDA_FAKE_HANDLES_H_

#include <cstddef>
#include <string>

#include "base/error.h"
#include "test/cuda/fake_cuda.h"
#include "test/cuda/fake_libraries.h"

namespace millrace::test::fake_handles {

inline FakeLibraries& Fake() { return FakeLibraries::Get(); }

// Of either library.
struct Handle {
  int device;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;  // of cuBLAS; null: its own
};

template <typename T, typename Opaque>
T& As(Opaque* opaque) {
  return *reinterpret_cast<T*>(opaque);
}

inline bool Fails() { return Fake().calls++ == Fake().fails_at; }

inline bool Require(bool holds, const std::string& what) {
  if (!holds) Fake().wrong.push_back(what);
  return holds;
}

inline bool RequireBytes(const void* pointer, size_t bytes, const Handle& handle,
                         const char* what) {
  const FakeCuda::Block* const block = FakeCuda::Get().Find(pointer, bytes);
  return Require(block != nullptr && block->type == cudaMemoryTypeDevice, what) &&
         Require(block->device == handle.device, StrCat(what, ": another GPU's memory"));
}

inline bool RequireMemory(const void* pointer, size_t floats, const Handle& handle,
                          const char* what) {
  return RequireBytes(pointer, floats * sizeof(float), handle, what);
}
inline bool Begin(const Handle& handle, const char* name) {
  if (!Require(handle.stream != nullptr, StrCat(name, ": no stream")) ||
      !Require(CurrentFakeGpu() == handle.device, StrCat(name, ": another GPU is selected"))) {
    return false;
  }
  FakeCuda::Get().Enqueue(handle.stream, name);
  return true;
}

template <typename T, typename Opaque>
void Make(Opaque* opaque, T value, int* count) {
  *opaque = reinterpret_cast<Opaque>(new T(value));
  ++*count;
}
template <typename T, typename Opaque>
void End(Opaque opaque, int* count) {
  delete reinterpret_cast<T*>(opaque);
  --*count;
}

}  // namespace millrace::test::fake_handles

#endif  // MILLRACE_TEST_CUDA_FAKE_HANDLES_H_
