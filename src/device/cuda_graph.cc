// CUDA graphs, recorded from a queue's stream.
#include <cuda_runtime.h>

#include <utility>

#include "device/cuda_queue.h"
#include "device/cuda_status.h"
#include "device/work_graph.h"

namespace millrace::inline device {
namespace {

// The events of a graph, which it refers to as long as it exists.
class CudaPoints final : public GraphPoints {
 public:
  explicit CudaPoints(CudaQueue& queue)
      : queue_(queue),
        mark_(queue.MakeMark()),
        follower_(queue.device().MakeQueue(QueuePriority::kNormal)),
        gate_(queue.MakeMark()) {
    CudaQueue::Of(*follower_).RecordAgain(gate_);
  }

  void Mark() override { queue_.RecordInGraph(mark_); }
  void Wait() override {
    queue_.WaitInGraph(gate_);
    waits_ = true;
  }

  // The recorded wait is for the work that this event marks when the graph is launched.
  void SetGate(const Event& other) {
    if (!waits_) return;
    CudaQueue& follower = CudaQueue::Of(*follower_);
    follower.Wait(other);
    follower.RecordAgain(gate_);
  }
  const Event& mark() const { return mark_; }

 private:
  CudaQueue& queue_;
  const Event mark_;
  const std::unique_ptr<Queue> follower_;  // has no work but waits
  const Event gate_;
  bool waits_ = false;
};

class CudaGraph final : public WorkGraph {
 public:
  CudaGraph(CudaQueue& queue, std::unique_ptr<CudaPoints> points, cudaGraphExec_t work)
      : queue_(queue), points_(std::move(points)), work_(work) {}
  ~CudaGraph() override {
    CheckCudaFree(cudaGraphExecDestroy(work_), queue_.device().name(), "cannot free a graph");
  }
  void Enqueue(const Event& other) override {
    points_->SetGate(other);
    queue_.Select();
    queue_.Check(cudaGraphLaunch(work_, queue_.stream()));
  }
  Event marked() const override { return points_->mark(); }

 private:
  CudaQueue& queue_;
  const std::unique_ptr<CudaPoints> points_;
  const cudaGraphExec_t work_;
};

// The stream's recording, which ends with this object at the latest.
class Recording {
 public:
  explicit Recording(CudaQueue& queue) : queue_(queue) {}
  ~Recording() {
    if (is_open_) End();
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    cudaGetLastError();  // clears the error, which the next call would report again
  }
  // Calls of other threads are not affected.
  cudaError_t Begin() {
    const cudaError_t status =
        cudaStreamBeginCapture(queue_.stream(), cudaStreamCaptureModeThreadLocal);
    SetOpen(status == cudaSuccess);
    return status;
  }
  cudaError_t End() {
    SetOpen(false);
    return cudaStreamEndCapture(queue_.stream(), &graph_);
  }
  cudaGraph_t graph() const { return graph_; }

 private:
  void SetOpen(bool is_open) {
    is_open_ = is_open;
    queue_.set_recording(is_open);
  }

  CudaQueue& queue_;
  bool is_open_ = false;
  cudaGraph_t graph_ = nullptr;
};

// Null if the runtime or a library refuses the recording.
cudaGraphExec_t Recorded(CudaQueue& queue, const std::function<void()>& enqueue, std::string* why) {
  Recording recording(queue);
  cudaError_t status = recording.Begin();
  if (status == cudaSuccess) {
    try {
      enqueue();
    } catch (const Error& error) {
      *why = error.what();
    }
    status = recording.End();
  }
  cudaGraphExec_t work = nullptr;
  if (status == cudaSuccess && why->empty()) {
    status = cudaGraphInstantiateWithFlags(&work, recording.graph(), 0);
  }
  if (status == cudaSuccess && why->empty()) return work;
  if (why->empty()) *why = CudaErrorText(status);
  return nullptr;
}

std::unique_ptr<WorkGraph> RecordCuda(Queue& generic,
                                      const std::function<void(GraphPoints& points)>& enqueue,
                                      std::string* why) {
  CudaQueue& queue = CudaQueue::Of(generic);
  auto points = std::make_unique<CudaPoints>(queue);
  queue.Select();
  why->clear();
  const cudaGraphExec_t work = Recorded(
      queue, [&] { enqueue(*points); }, why);
  if (work != nullptr) return std::make_unique<CudaGraph>(queue, std::move(points), work);
  queue.Synchronize();  // throws if it was no refusal, but the device has failed
  return nullptr;
}

const RegisterGraphRecorder cuda_graph(DeviceType::kCuda, &RecordCuda);

}  // namespace
}  // namespace millrace::inline device
