// KernelStream of a GPU: a CUDA stream with one event per mark. The stream has the lowest priority,
// so that solver kernels run first.
#include <cuda_runtime.h>
#include <glog/logging.h>

#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "exchange/kernels/cuda_launch.h"
#include "exchange/kernels/kernel_stream.h"

namespace millrace {
namespace {

class CudaStream : public KernelStream {
 public:
  CudaStream(int ordinal, const MergeRuleConfig& rule)
      : ordinal_(ordinal),
        launch_(CudaRuleRegistry::Get().Make(rule)),
        name_(StrCat("cuda device ", ordinal)),
        shared_(Driver().Staging(ordinal)) {
    Check(cudaSetDevice(ordinal), "cannot be used");
    int least = 0, greatest = 0;
    Check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "no stream priorities");
    Check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, least), "no stream");
    for (cudaEvent_t& event : events_) {
      // Blocking sync: a waiting thread sleeps and leaves the processor to solvers.
      Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
            "no event");
    }
  }

  ~CudaStream() override {
    Select();
    Note(cudaStreamSynchronize(stream_));
    for (const void* memory : registered_) Note(cudaHostUnregister(const_cast<void*>(memory)));
    for (cudaEvent_t event : events_) Note(cudaEventDestroy(event));
    Note(cudaStreamDestroy(stream_));
    if (!failure_.empty()) LOG(ERROR) << name_ << ": " << failure_;
  }

  const std::string& name() const override { return name_; }
  MemorySpace& shared() override { return shared_; }

  std::byte* RegisterMemory(std::span<const std::byte> memory) override {
    auto* const pointer = const_cast<std::byte*>(memory.data());
    Check(cudaSetDevice(ordinal_), "cannot be used");
    cudaPointerAttributes attributes{};
    const cudaError_t known = cudaPointerGetAttributes(&attributes, pointer);
    if (known == cudaSuccess && attributes.type == cudaMemoryTypeUnregistered) {
      if (cudaHostRegister(pointer, memory.size(),
                           cudaHostRegisterPortable | cudaHostRegisterMapped) != cudaSuccess) {
        cudaGetLastError();
        return nullptr;
      }
      registered_.push_back(pointer);
      if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
        cudaGetLastError();
        return nullptr;
      }
    } else if (known != cudaSuccess) {
      cudaGetLastError();
      return nullptr;
    }
    return static_cast<std::byte*>(attributes.devicePointer);
  }

  void Launch(const KernelBatch& batch, size_t slot) override {
    if (!failure_.empty()) return;
    Select();
    Note(launch_(batch, stream_));
    Note(cudaEventRecord(events_[slot], stream_));
  }

  void Wait(size_t slot) override {
    if (failure_.empty()) Note(cudaEventSynchronize(events_[slot]));
  }

  const std::string& failure() const override { return failure_; }

 private:
  static DeviceDriver& Driver() { return *DeviceRegistry::Get().Find(DeviceType::kCuda); }

  void Check(cudaError_t status, const char* what) const {
    if (status == cudaSuccess) return;
    cudaGetLastError();
    throw Error(name_, ": ", what, ": ", cudaGetErrorString(status));
  }

  // The current device is a property of the calling thread.
  void Select() { Note(cudaSetDevice(ordinal_)); }

  // Records the first failure; later ones are its consequences. The device has then stopped: it
  // discards its work and accesses no memory.
  void Note(cudaError_t status) {
    if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
    cudaGetLastError();
    if (failure_.empty())
      failure_ = StrCat("the exchange's kernels failed: ", cudaGetErrorString(status));
  }

  const int ordinal_;
  const ExchangeLaunch launch_;
  const std::string name_;
  MemorySpace& shared_;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, kMostLaunches> events_{};
  std::vector<const void*> registered_;
  std::string failure_;
};

std::unique_ptr<KernelStream> MakeCudaStream(int ordinal, const MergeRuleConfig& rule) {
  return std::make_unique<CudaStream>(ordinal, rule);
}

const RegisterKernelStream registered(DeviceType::kCuda, MakeCudaStream);

}  // namespace
}  // namespace millrace
