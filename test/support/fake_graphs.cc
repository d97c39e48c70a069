#include "test/support/fake_graphs.h"

#include <utility>

#include "base/error.h"
#include "device/work_graph.h"

namespace millrace::test {
namespace {

thread_local FakeRecording* current = nullptr;

class FakeGraph : public WorkGraph {
 public:
  FakeGraph(FakeQueue& queue, std::vector<FakeRecording::Step> steps)
      : queue_(queue), steps_(std::move(steps)) {}
  void Enqueue(const Event& other) override {
    ++FakeGraphs::Get().replayed;
    std::vector<FakeQueue::Work> part;
    const auto enqueue = [&] {
      queue_.Enqueue([work = std::exchange(part, {})] {
        for (const FakeQueue::Work& each : work) each();
      });
    };
    for (const FakeRecording::Step& step : steps_) {
      if (step.point == FakeRecording::Point::kNone) {
        part.push_back(step.work);
        continue;
      }
      enqueue();
      if (step.point == FakeRecording::Point::kMark) {
        marked_ = queue_.Record();
      } else {
        queue_.Wait(other);
      }
    }
    enqueue();
  }
  Event marked() const override { return marked_; }

 private:
  FakeQueue& queue_;
  const std::vector<FakeRecording::Step> steps_;
  Event marked_;
};

std::unique_ptr<WorkGraph> Record(Queue& queue,
                                  const std::function<void(GraphPoints& points)>& enqueue,
                                  std::string* why) {
  FakeGraphs& graphs = FakeGraphs::Get();
  FakeRecording recording(&FakeQueue::Of(queue));
  try {
    enqueue(recording);
  } catch (const Error& error) {
    static_cast<FakeDevice&>(queue.device()).calls()->ThrowIfFailed();
    *why = error.what();
    return nullptr;
  }
  if (graphs.recorded >= graphs.refuses_from) {
    *why = "the recording was refused";
    return nullptr;
  }
  ++graphs.recorded;
  return std::make_unique<FakeGraph>(recording.queue(), std::move(recording.steps()));
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

void FakeRecording::Add(Step step) {
  static_cast<FakeDevice&>(queue_.device()).calls()->Count();
  steps_.push_back(std::move(step));
}

}  // namespace millrace::test
