// NVIDIA GPUs as devices: device memory, and page-locked host memory for copies to and from it.
// Without a driver or a GPU, List() is empty.
#include <cuda.h>
#include <cuda_runtime.h>
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"
#include "device/device.h"

namespace millrace {
namespace {

// Throws Error unless `status` is cudaSuccess. `device` names the failing device: "cuda device 0".
template <typename... Parts>
void Check(cudaError_t status, const std::string& device, const Parts&... doing) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which the next call would report again
  throw Error(device, ": ", doing..., ": ", cudaGetErrorString(status));
}

// For destructors: logs an error instead of throwing. Ignores errors after the runtime has shut
// down at program exit.
void CheckFree(cudaError_t status, const std::string& device) {
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  cudaGetLastError();
  LOG(ERROR) << device << ": cannot free memory: " << cudaGetErrorString(status);
}

// Number of usable GPUs. On any error it is 0 and `*why` receives the reason; `why` may be null.
int CountDevices(std::string* why = nullptr) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return count;
  cudaGetLastError();
  if (why) *why = cudaGetErrorString(status);
  return 0;
}

// Allocation granularity in bytes. A dma-buf consists of whole pages, so an array must end on a
// page boundary. Large arrays also begin on one.
constexpr size_t kPiece = size_t{64} << 10;

size_t WholePieces(size_t bytes) {
  const size_t whole = (std::max<size_t>(bytes, 1) + kPiece - 1) / kPiece * kPiece;
  return whole < bytes ? bytes : whole;  // overflow: let the driver refuse the size
}

// Driver API function, resolved at run time: a program linked against the driver would not start on
// machines without one.
using ExportRange = CUresult (*)(void* handle, CUdeviceptr from, size_t bytes,
                                 CUmemRangeHandleType type, unsigned long long flags);
ExportRange FindExport() {
  constexpr unsigned kSince = 11070;  // CUDA 11.7
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t status = cudaGetDriverEntryPointByVersion(
      "cuMemGetHandleForAddressRange", &found, kSince, cudaEnableDefault, &result);
  if (status != cudaSuccess) cudaGetLastError();
  return status == cudaSuccess && result == cudaDriverEntryPointSuccess
             ? reinterpret_cast<ExportRange>(found)
             : nullptr;
}

class CudaMemory : public MemorySpace {
 public:
  explicit CudaMemory(int ordinal) : ordinal_(ordinal), name_(StrCat("cuda device ", ordinal)) {}

  void* Allocate(size_t bytes) override {
    Select();
    void* pointer = nullptr;
    Check(cudaMalloc(&pointer, WholePieces(bytes)), name_, "cannot allocate ", bytes, " bytes");
    return pointer;
  }
  std::string name() const override { return name_; }
  bool on_host() const override { return false; }

  DmaBuf ExportDmaBuf(const void* pointer, size_t bytes, std::string* why) override {
    static const ExportRange export_range = FindExport();
    if (!export_range) {
      *why = "the driver is older than CUDA 11.7";
      return {};
    }
    Select();
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(pointer), from = begin / page * page;
    const uintptr_t to = (begin + bytes + page - 1) / page * page;
    int file = -1;
    const CUresult result =
        export_range(&file, from, to - from, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (result != CUDA_SUCCESS) {
      *why = result == CUDA_ERROR_NOT_SUPPORTED
                 ? "the driver has no dma-buf (it needs NVIDIA's open kernel modules)"
                 : StrCat("the driver gives no dma-buf: error ", static_cast<int>(result));
      return {};
    }
    return {FileDescriptor(file), begin - from};
  }
  void Free(void* pointer) override {
    CheckFree(cudaSetDevice(ordinal_), name_);
    CheckFree(cudaFree(pointer), name_);
  }
  void Fill(void* pointer, int byte, size_t bytes) override {
    Select();
    Check(cudaMemset(pointer, byte, bytes), name_, "cannot fill memory");
    // cudaMemset() may return before the GPU has finished.
    Check(cudaStreamSynchronize(cudaStreamLegacy), name_, "cannot fill memory");
  }
  void CopyFromHost(void* destination, const void* host, size_t bytes) override {
    Copy(destination, host, bytes, cudaMemcpyHostToDevice);
  }
  void CopyToHost(void* host, const void* source, size_t bytes) override {
    Copy(host, source, bytes, cudaMemcpyDeviceToHost);
  }

 private:
  // The current device is a property of the calling thread.
  void Select() { Check(cudaSetDevice(ordinal_), name_, "cannot be used"); }

  void Copy(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
    Select();
    Check(cudaMemcpy(destination, source, bytes, kind), name_, "cannot copy ", bytes, " bytes");
    Check(cudaStreamSynchronize(cudaStreamLegacy), name_, "cannot copy ", bytes, " bytes");
  }

  const int ordinal_;
  const std::string name_;
};

// Page-locked memory, usable with every GPU of the machine.
class PinnedMemory : public MemorySpace {
 public:
  std::string name() const override { return kName; }
  void* Allocate(size_t bytes) override {
    void* pointer = nullptr;
    Check(cudaHostAlloc(&pointer, std::max<size_t>(bytes, 1), cudaHostAllocPortable), kName,
          "cannot allocate ", bytes, " bytes");
    return pointer;
  }
  void Free(void* pointer) override { CheckFree(cudaFreeHost(pointer), kName); }
  void Fill(void* pointer, int byte, size_t bytes) override {
    HostMemory().Fill(pointer, byte, bytes);
  }
  void CopyFromHost(void* destination, const void* host, size_t bytes) override {
    HostMemory().CopyFromHost(destination, host, bytes);
  }
  void CopyToHost(void* host, const void* source, size_t bytes) override {
    HostMemory().CopyToHost(host, source, bytes);
  }

 private:
  static constexpr char kName[] = "page-locked host memory";
};

class CudaDriver : public DeviceDriver {
 public:
  DeviceType type() const override { return DeviceType::kCuda; }

  std::vector<DeviceInfo> List() override {
    std::vector<DeviceInfo> devices;
    const int count = CountDevices();
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      cudaDeviceProp properties;
      if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) {
        cudaGetLastError();
        continue;
      }
      devices.push_back({DeviceType::kCuda, ordinal,
                         StrCat(properties.name, ", compute capability ", properties.major, ".",
                                properties.minor),
                         properties.totalGlobalMem});
    }
    return devices;
  }

  MemorySpace& Memory(int ordinal) override {
    RequireDevice(ordinal);
    std::lock_guard lock(mutex_);
    std::unique_ptr<CudaMemory>& memory = memories_[ordinal];
    if (!memory) memory = std::make_unique<CudaMemory>(ordinal);
    return *memory;
  }

  MemorySpace& Staging(int ordinal) override {
    RequireDevice(ordinal);
    return pinned_;
  }

  int OwnerOf(const void* pointer) override {
    {
      // Avoid the query if this process uses no GPU: the runtime would initialise a GPU for it.
      std::lock_guard lock(mutex_);
      if (memories_.empty()) return -1;
    }
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
      cudaGetLastError();
      return -1;
    }
    return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
  }

 private:
  static void RequireDevice(int ordinal) {
    std::string why = "none is there";
    const int count = CountDevices(&why);
    if (ordinal >= 0 && ordinal < count) return;
    throw Error(
        "cuda device ", ordinal, " does not exist; ",
        count ? StrCat("devices here: 0 to ", count - 1) : StrCat("no GPU is usable here: ", why));
  }

  std::mutex mutex_;
  std::map<int, std::unique_ptr<CudaMemory>> memories_;
  PinnedMemory pinned_;
};

const RegisterDevice registered(std::make_unique<CudaDriver>());

}  // namespace
}  // namespace millrace
