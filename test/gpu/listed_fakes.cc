#include "test/gpu/listed_fakes.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "test/support/fake_device.h"

namespace millrace::test {
namespace {

std::vector<Device*>& Listed() {
  static std::vector<Device*> devices;
  return devices;
}

class FakeDriver : public DeviceDriver {
 public:
  DeviceType type() const override { return kFakeDevice; }
  const char* type_name() const override { return "fake"; }
  std::vector<DeviceInfo> List() override {
    std::vector<DeviceInfo> infos;
    for (const Device* device : Listed()) {
      infos.push_back({kFakeDevice, device->ordinal(), device->name(), 0});
    }
    return infos;
  }
  Device& Open(int ordinal) override {
    for (Device* device : Listed()) {
      if (device->ordinal() == ordinal) return *device;
    }
    throw Error("fake device ", ordinal, ": none is listed");
  }
};

const RegisterDevice kRegister(std::make_unique<FakeDriver>());

}  // namespace

void ListedFakes::Set(std::vector<Device*> devices) { Listed() = std::move(devices); }

}  // namespace millrace::test
