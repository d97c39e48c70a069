// CUDA graphs, recorded from a queue's stream.
#include <cuda_runtime.h>

#include "device/cuda_queue.h"
#include "device/cuda_status.h"
#include "device/work_graph.h"

namespace millrace::inline device {
namespace {

class CudaGraph final : public WorkGraph {
 public:
  CudaGraph(CudaQueue& queue, cudaGraphExec_t work) : queue_(queue), work_(work) {}
  ~CudaGraph() override {
    CheckCudaFree(cudaGraphExecDestroy(work_), queue_.device().name(), "cannot free a graph");
  }
  void Enqueue() override {
    queue_.Select();
    queue_.Check(cudaGraphLaunch(work_, queue_.stream()));
  }

 private:
  CudaQueue& queue_;
  const cudaGraphExec_t work_;
};

// The stream's recording, which ends with this object at the latest.
class Recording {
 public:
  explicit Recording(cudaStream_t stream) : stream_(stream) {}
  ~Recording() {
    if (is_open_) End();
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    cudaGetLastError();  // clears the error, which the next call would report again
  }
  // Calls of other threads are not affected.
  cudaError_t Begin() {
    const cudaError_t status = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    is_open_ = status == cudaSuccess;
    return status;
  }
  cudaError_t End() {
    is_open_ = false;
    return cudaStreamEndCapture(stream_, &graph_);
  }
  cudaGraph_t graph() const { return graph_; }

 private:
  const cudaStream_t stream_;
  bool is_open_ = false;
  cudaGraph_t graph_ = nullptr;
};

std::unique_ptr<WorkGraph> RecordCuda(Queue& generic, const std::function<void()>& enqueue,
                                      std::string* why) {
  CudaQueue& queue = CudaQueue::Of(generic);
  queue.Select();
  Recording recording(queue.stream());
  cudaError_t status = recording.Begin();
  if (status == cudaSuccess) {
    enqueue();
    status = recording.End();
  }
  cudaGraphExec_t work = nullptr;
  if (status == cudaSuccess) status = cudaGraphInstantiateWithFlags(&work, recording.graph(), 0);
  if (status == cudaSuccess) return std::make_unique<CudaGraph>(queue, work);
  *why = CudaErrorText(status);
  return nullptr;
}

const RegisterGraphRecorder registered(DeviceType::kCuda, &RecordCuda);

}  // namespace
}  // namespace millrace::inline device
