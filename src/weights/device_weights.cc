#include "weights/device_weights.h"

namespace millrace::inline weights {
namespace {

Buffer Allocated(Device* device, int64_t size) {
  try {
    return Buffer(device->memory(), static_cast<size_t>(size) * sizeof(float));
  } catch (const OutOfMemory& error) {
    throw OutOfMemory("the weights: ", error.what());
  }
}

}  // namespace

DeviceWeights::DeviceWeights(Device* device, int64_t size)
    : device_(*device), size_(size), memory_(Allocated(device, size)) {
  device_.memory().Fill(memory_.get(), 0, memory_.bytes());
}

void DeviceWeights::CopyFromHost(const float* host) {
  device_.memory().CopyFromHost(memory_.get(), host, memory_.bytes());
}

void DeviceWeights::CopyToHost(float* host) const {
  device_.memory().CopyToHost(host, memory_.get(), memory_.bytes());
}

}  // namespace millrace::inline weights
