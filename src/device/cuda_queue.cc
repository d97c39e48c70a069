#include "device/cuda_queue.h"

#include <glog/logging.h>

#include "base/clock.h"
#include "device/cuda_status.h"
#include "device/spin_until.h"

namespace millrace::inline device {
namespace {

// A short wait ends without the wake-up of a thread; a long one leaves the processor to solvers.
constexpr int64_t kSpinNs = 50'000;

}  // namespace

void CudaFailure::Check(cudaError_t status) {
  std::lock_guard lock(mutex_);
  if (status != cudaSuccess) {
    cudaGetLastError();  // clears the error, which the next call would report again
    if (recording_ && line_.empty()) throw DeviceError(CudaErrorText(status));
    // Callers take back the memory of enqueued work when they see the error. A refused call does
    // not stop the work before it, so wait for that; a device that has stopped does not make us
    // wait.
    if (line_.empty() && cudaDeviceSynchronize() != cudaSuccess) cudaGetLastError();
    if (line_.empty()) line_ = StrCat(device_, ": work has failed: ", CudaErrorText(status));
  }
  if (!line_.empty()) throw DeviceError(line_);
}

// A CUDA event. Waits that are not over soon put the thread to sleep and leave the processor to
// solvers.
class CudaQueue::Mark : public Event::State {
 public:
  explicit Mark(std::shared_ptr<CudaFailure> failure) : failure_(std::move(failure)) {
    failure_->Check(
        cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync));
  }
  ~Mark() override {
    CheckCudaFree(cudaEventDestroy(event_), failure_->device(), "cannot free an event");
  }

  bool Done() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    failure_->Check(status);
    return true;
  }
  void Synchronize() override {
    const SteadyClock clock;
    if (SpinUntil([this] { return Done(); }, clock, kSpinNs)) return;
    failure_->Check(cudaEventSynchronize(event_));
  }

  cudaEvent_t get() const { return event_; }

 private:
  const std::shared_ptr<CudaFailure> failure_;
  cudaEvent_t event_ = nullptr;
};

CudaQueue::CudaQueue(Device& device, QueuePriority priority)
    : Queue(device),
      ordinal_(device.ordinal()),
      failure_(std::make_shared<CudaFailure>(device.name())) {
  const std::string& name = device.name();
  CheckCuda(cudaSetDevice(ordinal_), name, "cannot be used");
  int least = 0, greatest = 0;
  CheckCuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), name, "no stream priorities");
  const int level = priority == QueuePriority::kLow ? least : greatest;
  CheckCuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, level), name,
            "no stream");
}

CudaQueue::~CudaQueue() {
  const std::string& name = device().name();
  CheckCudaFree(cudaSetDevice(ordinal_), name, "cannot be used");
  // After a failure, the device has stopped: it discards its work and accesses no memory.
  CheckCudaFree(cudaStreamSynchronize(stream_), name, "work has failed");
  EndAttached();
  CheckCudaFree(cudaStreamDestroy(stream_), name, "cannot free a stream");
}

CudaQueue& CudaQueue::Of(Queue& queue) {
  CHECK(queue.device().type() == DeviceType::kCuda) << queue.device().name() << " is no GPU";
  return static_cast<CudaQueue&>(queue);
}

void CudaQueue::Select() { Check(cudaSetDevice(ordinal_)); }

void CudaQueue::Copy(void* destination, const void* source, size_t bytes) {
  Select();
  Check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice, stream_));
}

void CudaQueue::CopyToDevice(void* destination, const void* host, size_t bytes) {
  Select();
  Check(cudaMemcpyAsync(destination, host, bytes, cudaMemcpyHostToDevice, stream_));
}

void CudaQueue::CopyToHost(void* host, const void* source, size_t bytes) {
  Select();
  Check(cudaMemcpyAsync(host, source, bytes, cudaMemcpyDeviceToHost, stream_));
}

void CudaQueue::Fill(void* destination, int byte, size_t bytes) {
  Select();
  Check(cudaMemsetAsync(destination, byte, bytes, stream_));
}

Event CudaQueue::Record() {
  std::shared_ptr<Mark> mark;
  for (const std::shared_ptr<Mark>& each : marks_) {
    // Nobody else can refer to it again. All that a mark shares is an event of the runtime, whose
    // calls order themselves.
    if (each.use_count() != 1) continue;
    mark = each;
    break;
  }
  if (!mark) {
    Select();
    mark = marks_.emplace_back(std::make_shared<Mark>(failure_));
  }
  Check(cudaEventRecord(mark->get(), stream_));
  return Event(std::move(mark));
}

void CudaQueue::Wait(const Event& event) {
  if (const auto* const mark = dynamic_cast<const Mark*>(event.state())) {
    Select();
    return Check(cudaStreamWaitEvent(stream_, mark->get(), 0));
  }
  event.Synchronize();
}

Event CudaQueue::MakeMark() {
  Select();
  return Event(marks_.emplace_back(std::make_shared<Mark>(failure_)));
}

cudaEvent_t CudaQueue::Handle(const Event& mark) {
  return static_cast<const Mark*>(mark.state())->get();
}

void CudaQueue::RecordAgain(const Event& mark) {
  Select();
  Check(cudaEventRecord(Handle(mark), stream_));
}

void CudaQueue::RecordInGraph(const Event& mark) {
  Check(cudaEventRecordWithFlags(Handle(mark), stream_, cudaEventRecordExternal));
}

void CudaQueue::WaitInGraph(const Event& mark) {
  Check(cudaStreamWaitEvent(stream_, Handle(mark), cudaEventWaitExternal));
}

// cudaStreamSynchronize would spin to the end and take a processor from the solvers on it.
void CudaQueue::Synchronize() { Record().Synchronize(); }

}  // namespace millrace::inline device
