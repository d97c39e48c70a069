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
  if (why) *why = cudaGetErrorString(status);
  return 0;
}

PinnedMemory& Pinned() {
  static PinnedMemory pinned;
  return pinned;
}

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
  explicit CudaDevice(int ordinal) : ordinal_(ordinal), memory_(ordinal) {}

  DeviceType type() const override { return DeviceType::kCuda; }
  int ordinal() const override { return ordinal_; }
  const std::string& name() const override { return name_; }
  MemorySpace& memory() override { return memory_; }
  MemorySpace& staging() override { return Pinned(); }
  std::unique_ptr<Queue> MakeQueue(QueuePriority priority) override {
    return std::make_unique<CudaQueue>(*this, priority);
  }

  std::unique_ptr<MemoryMapping> Map(std::span<const std::byte> memory) override {
    CheckCuda(cudaSetDevice(ordinal_), name_, "cannot be used");
    auto* const pointer = const_cast<std::byte*>(memory.data());
    cudaPointerAttributes attributes{};
    if (!Succeeds(cudaPointerGetAttributes(&attributes, pointer))) return nullptr;
    if (attributes.type != cudaMemoryTypeUnregistered) {
      auto* const address = static_cast<std::byte*>(attributes.devicePointer);
      return address ? std::make_unique<MemoryMapping>(address) : nullptr;
    }
    constexpr unsigned kFlags = cudaHostRegisterPortable | cudaHostRegisterMapped;
    if (!Succeeds(cudaHostRegister(pointer, memory.size(), kFlags))) return nullptr;
    const bool known = Succeeds(cudaPointerGetAttributes(&attributes, pointer));
    auto* const address = known ? static_cast<std::byte*>(attributes.devicePointer) : nullptr;
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
    const auto version = [](int number) { return StrCat(number / 1000, ".", number % 1000 / 10); };
    return StrCat("CUDA ", version(runtime), ", ",
                  driver > 0 ? "driver for CUDA " + version(driver) : "no driver");
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
  std::mutex mutex_;
  std::map<int, std::unique_ptr<CudaDevice>> devices_;
};

const RegisterDevice registered(std::make_unique<CudaDriver>());

}  // namespace
}  // namespace millrace::inline device
