#include "test/support/fake_graphs.h"

#include <utility>

#include "base/error.h"
#include "device/work_graph.h"

namespace millrace::test {
namespace {

thread_local FakeRecording* current = nullptr;

class FakeGraph : public WorkGraph {
 public:
  FakeGraph(FakeQueue& queue, std::vector<FakeQueue::Work> work)
      : queue_(queue), work_(std::move(work)) {}
  void Enqueue() override {
    ++FakeGraphs::Get().replayed;
    queue_.Enqueue([work = work_] {
      for (const FakeQueue::Work& each : work) each();
    });
  }

 private:
  FakeQueue& queue_;
  const std::vector<FakeQueue::Work> work_;
};

std::unique_ptr<WorkGraph> Record(Queue& queue, const std::function<void()>& enqueue,
                                  std::string* why) {
  FakeGraphs& graphs = FakeGraphs::Get();
  FakeRecording recording(&FakeQueue::Of(queue));
  enqueue();
  if (graphs.recorded >= graphs.refuses_from) {
    *why = "the recording was refused";
    return nullptr;
  }
  ++graphs.recorded;
  return std::make_unique<FakeGraph>(recording.queue(), std::move(recording.work()));
}

const RegisterGraphRecorder registered(kFakeDevice, &Record);

}  // namespace

FakeGraphs& FakeGraphs::Get() {
  static FakeGraphs graphs;
  return graphs;
}

FakeRecording* FakeRecording::Current() { return current; }

void FakeRecording::Refuse(const char* what) {
  if (current != nullptr) throw Error("a recording of work was broken: ", what);
}

FakeRecording::FakeRecording(FakeQueue* queue) : queue_(*queue) {
  Refuse("it has begun already");
  current = this;
}
FakeRecording::~FakeRecording() { current = nullptr; }

void FakeRecording::Take(FakeQueue::Work work) {
  static_cast<FakeDevice&>(queue_.device()).calls()->Count();
  work_.push_back(std::move(work));
}

}  // namespace millrace::test
