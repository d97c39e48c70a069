// Memory of NVIDIA GPUs, and page-locked host memory for copies to and from it.
#ifndef MILLRACE_DEVICE_CUDA_MEMORY_H_
#define MILLRACE_DEVICE_CUDA_MEMORY_H_

#include <string>

#include "millrace/memory_space.h"

namespace millrace::inline device {

class CudaMemory : public MemorySpace {
 public:
  explicit CudaMemory(int ordinal);

  std::string name() const override { return name_; }
  bool on_host() const override { return false; }
  DmaBuf ExportDmaBuf(const void* pointer, size_t bytes, std::string* why) override;
  void* Allocate(size_t bytes) override;
  void Free(void* pointer) override;
  void Fill(void* pointer, int byte, size_t bytes) override;
  void CopyFromHost(void* destination, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* source, size_t bytes) override;

 private:
  void Select();

  const int ordinal_;
  const std::string name_;
};

// Page-locked memory, usable with every GPU of the machine. It is allocated in the context of GPU
// `ordinal`, on whatever thread.
class PinnedMemory : public MemorySpace {
 public:
  explicit PinnedMemory(int ordinal);

  std::string name() const override { return "page-locked host memory"; }
  void* Allocate(size_t bytes) override;
  void Free(void* pointer) override;
  void Fill(void* pointer, int byte, size_t bytes) override;
  void CopyFromHost(void* destination, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* source, size_t bytes) override;

 private:
  const int ordinal_;
  const std::string device_;
};

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_CUDA_MEMORY_H_
