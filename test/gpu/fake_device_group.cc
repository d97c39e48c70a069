// Sums between fake devices of one process. As on GPUs, the work of a sum waits on its queue for
// the same sum of the others.
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "collective/device_collective.h"
#include "collective/thread_group.h"
#include "test/support/fake_device.h"

namespace millrace::test {
namespace {

class FakeMember : public DeviceCollective {
 public:
  FakeMember(std::shared_ptr<ThreadGroup> group, int index)
      : group_(std::move(group)), member_(group_->member(index)) {}

  int rank() const override { return member_.rank(); }
  int size() const override { return member_.size(); }
  void Sum(Queue* queue, std::span<float> values, bool average) override {
    const float share = average ? 1 / static_cast<float>(size()) : 1;
    const auto sum = [group = group_, this, count = values.size(), share](float* alias) {
      try {
        member_.Sum({alias, count});
      } catch (const Error&) {
        return;  // aborted: the values are undefined
      }
      for (size_t i = 0; i < count; ++i) alias[i] *= share;
    };
    EnqueueKernel(*queue, sum, values.data());
  }
  void Check() override {}
  void Abort() override { group_->Poison(std::make_exception_ptr(Error("aborted"))); }

 private:
  const std::shared_ptr<ThreadGroup> group_;
  Collective& member_;
};

DeviceGroup Make(std::span<Device* const> devices, Collective* between) {
  if (between != nullptr) throw Error("fake devices sum within one process only");
  const auto group = std::make_shared<ThreadGroup>(static_cast<int>(devices.size()));
  DeviceGroup members;
  for (size_t i = 0; i < devices.size(); ++i) {
    members.push_back(std::make_unique<FakeMember>(group, static_cast<int>(i)));
  }
  return members;
}

const RegisterDeviceGroup registered(kFakeDevice, Make);

}  // namespace
}  // namespace millrace::test
