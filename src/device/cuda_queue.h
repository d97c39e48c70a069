// Queue of a GPU: a CUDA stream. For files named for CUDA, which enqueue kernels on stream().
#ifndef MILLRACE_DEVICE_CUDA_QUEUE_H_
#define MILLRACE_DEVICE_CUDA_QUEUE_H_

#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/device.h"

namespace millrace::inline device {

// The first failure of a queue's work, which its events report, too. Thread-safe.
class CudaFailure {
 public:
  explicit CudaFailure(const std::string& device) : device_(device) {}
  // Stores the failure unless `status` is success or a failure is known already; then throws Error
  // with the stored failure, if there is one.
  void Check(cudaError_t status);
  // While work is recorded, which nothing runs yet, a refused call throws Error, but is no failure.
  void set_recording(bool recording) { recording_ = recording; }
  const std::string& device() const { return device_; }

 private:
  const std::string device_;
  std::mutex mutex_;
  std::string line_;  // "" until the first failure
  std::atomic<bool> recording_{false};
};

class CudaQueue final : public Queue {
 public:
  // `device`: a GPU. Throws Error.
  CudaQueue(Device& device, QueuePriority priority);
  ~CudaQueue() override;

  // The queue of a GPU that generic code passes as a Queue.
  static CudaQueue& Of(Queue& queue);

  // The stream on which the work of this queue runs. It does not synchronise with the legacy
  // stream.
  cudaStream_t stream() const { return stream_; }
  // Makes this queue's device the current one of the calling thread. Call before a kernel launch.
  void Select();
  // Call with the result of each CUDA call about this queue. Throws Error if the call or earlier
  // work has failed, with the same line from then on.
  void Check(cudaError_t status) { failure_->Check(status); }

  void Copy(void* destination, const void* source, size_t bytes) override;
  void CopyToDevice(void* destination, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* source, size_t bytes) override;
  void Fill(void* destination, int byte, size_t bytes) override;
  Event Record() override;
  void Wait(const Event& event) override;
  void Synchronize() override;

  // ---- For work that is recorded (device/work_graph.h) ----
  // An event of this queue, reached at first, for the calls below.
  Event MakeMark();
  // Marks the end of this queue's work by `mark`, which then no longer denotes another point.
  void RecordAgain(const Event& mark);
  // While stream() records: the recorded work marks its present end by `mark`, or waits for it.
  void RecordInGraph(const Event& mark);
  void WaitInGraph(const Event& mark);
  // Whether stream() records: a call that is refused meanwhile is no failure of the device.
  void set_recording(bool recording) { failure_->set_recording(recording); }

 private:
  class Mark;
  static cudaEvent_t Handle(const Event& mark);

  const int ordinal_;
  const std::shared_ptr<CudaFailure> failure_;
  cudaStream_t stream_ = nullptr;
  std::vector<std::shared_ptr<Mark>> marks_;  // reused when no Event refers to them
};

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_CUDA_QUEUE_H_
