// NVIDIA GPUs as devices. Without a driver or a GPU, List() is empty.
#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <mutex>

#include "device/cuda_memory.h"
#include "device/cuda_queue.h"
#include "device/cuda_status.h"

namespace millrace::inline device {
namespace {

// Number of usable GPUs. On any error it is 0 and `*why` receives the reason; `why` may be null.
int CountDevices(std::string* why = nullptr) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return count;
  cudaGetLastError();
  if (why) *why = WhyNoCuda(status);
  return 0;
}

// Machine code or PTX of this build runs from this compute capability on (10 * major + minor).
constexpr int kOldestGpu = MILLRACE_OLDEST_GPU;

// Pages of the host that this object has locked.
class LockedPages : public MemoryMapping {
 public:
  LockedPages(std::byte* address, void* host, Device& device)
      : MemoryMapping(address), host_(host), device_(device) {}
  ~LockedPages() override {
    CheckCudaFree(cudaSetDevice(device_.ordinal()), device_.name(), "cannot be used");
    CheckCudaFree(cudaHostUnregister(host_), device_.name(), "cannot unlock memory");
  }

 private:
  void* const host_;
  Device& device_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal), memory_(ordinal), staging_(ordinal) {}

  DeviceType type() const override { return DeviceType::kCuda; }
  int ordinal() const override { return ordinal_; }
  const std::string& name() const override { return name_; }
  MemorySpace& memory() override { return memory_; }
  MemorySpace& staging() override { return staging_; }
  std::unique_ptr<Queue> MakeQueue(QueuePriority priority) override {
    return std::make_unique<CudaQueue>(*this, priority);
  }

  std::unique_ptr<MemoryMapping> Map(std::span<const std::byte> memory) override {
    CheckCuda(cudaSetDevice(ordinal_), name_, "cannot be used");
    if (memory.empty()) return nullptr;
    auto* const pointer = const_cast<std::byte*>(memory.data());
    cudaPointerAttributes first{}, last{};
    if (!Succeeds(cudaPointerGetAttributes(&first, pointer)) ||
        !Succeeds(cudaPointerGetAttributes(&last, &memory.back()))) {
      return nullptr;
    }
    // Kernels reach all of it in one piece, in the memory of this device or of the host, or the
    // host has to lock it; a part of another device's memory is neither.
    if (first.type != last.type || first.device != last.device) return nullptr;
    if (first.type != cudaMemoryTypeUnregistered) {
      if (first.type == cudaMemoryTypeDevice && first.device != ordinal_) return nullptr;
      auto* const address = static_cast<std::byte*>(first.devicePointer);
      if (!address || last.devicePointer != address + memory.size() - 1) return nullptr;
      return std::make_unique<MemoryMapping>(address);
    }
    constexpr unsigned kFlags = cudaHostRegisterPortable | cudaHostRegisterMapped;
    if (!Succeeds(cudaHostRegister(pointer, memory.size(), kFlags))) return nullptr;
    const bool known = Succeeds(cudaPointerGetAttributes(&first, pointer));
    auto* const address = known ? static_cast<std::byte*>(first.devicePointer) : nullptr;
    auto locked = std::make_unique<LockedPages>(address, pointer, *this);
    if (!address) return nullptr;
    return locked;
  }

 private:
  static bool Succeeds(cudaError_t status) {
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess;
  }

  const int ordinal_;
  CudaMemory memory_;
  PinnedMemory staging_;
  const std::string name_ = memory_.name();
};

class CudaDriver final : public DeviceDriver {
 public:
  DeviceType type() const override { return DeviceType::kCuda; }
  const char* type_name() const override { return "cuda"; }

  std::string WhyNone() override {
    std::string why;
    CountDevices(&why);
    return why;
  }
  std::string Versions() override {
    int runtime = 0, driver = 0;  // 1000 * major + 10 * minor; a driver of 0: none is installed
    const bool known = cudaRuntimeGetVersion(&runtime) == cudaSuccess &&
                       cudaDriverGetVersion(&driver) == cudaSuccess;
    if (!known) cudaGetLastError();
    return StrCat("CUDA ", CudaVersionText(runtime), ", ",
                  driver > 0 ? "driver for CUDA " + CudaVersionText(driver) : "no driver");
  }

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

  Device& Open(int ordinal) override {
    std::lock_guard lock(mutex_);
    const auto found = devices_.find(ordinal);
    if (found != devices_.end()) return *found->second;
    std::string why = "none is there";
    const int count = CountDevices(&why);
    if (ordinal < 0 || ordinal >= count) {
      throw Error("cuda device ", ordinal, " does not exist; ",
                  count ? StrCat("devices here: 0 to ", count - 1)
                        : StrCat("no GPU is usable here: ", why));
    }
    CheckAge(ordinal);
    return *(devices_[ordinal] = std::make_unique<CudaDevice>(ordinal));
  }

  int OwnerOf(const void* pointer) override {
    {
      // Avoid the query if this process uses no GPU: the runtime would initialise a GPU for it.
      std::lock_guard lock(mutex_);
      if (devices_.empty()) return -1;
    }
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
      cudaGetLastError();
      return -1;
    }
    return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
  }

 private:
  static void CheckAge(int ordinal) {
    const std::string name = StrCat("cuda device ", ordinal);
    cudaDeviceProp properties;
    CheckCuda(cudaGetDeviceProperties(&properties, ordinal), name, "cannot be used");
    if (properties.major * 10 + properties.minor >= kOldestGpu) return;
    throw Error(name, ": compute capability ", properties.major, ".", properties.minor,
                ", this build needs at least ", kOldestGpu / 10, ".", kOldestGpu % 10,
                " (make CUDA_ARCHS=sm_", properties.major, properties.minor, ")");
  }

  std::mutex mutex_;
  std::map<int, std::unique_ptr<CudaDevice>> devices_;
};

const RegisterDevice cuda_device(std::make_unique<CudaDriver>());

}  // namespace
}  // namespace millrace::inline device
