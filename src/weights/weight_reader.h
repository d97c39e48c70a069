// Reads a replica into host memory, wherever it lies, while solvers and segments change it.
#ifndef MILLRACE_WEIGHTS_WEIGHT_READER_H_
#define MILLRACE_WEIGHTS_WEIGHT_READER_H_

#include <cstdint>
#include <functional>
#include <span>

#include "weights/device_weights.h"
#include "weights/weight_buffer.h"

namespace millrace::inline weights {

// Copies denote the same replica, which outlives them. Thread-safe.
class WeightReader {
 public:
  using Use = std::function<void(std::span<float> piece)>;

  // A reader of no weights.
  WeightReader() : WeightReader(std::span<const float>()) {}
  // A reader of an array in host memory. Each value that is read is one that the weight had during
  // the call. Conversions, because such an array needs nothing else to be read.
  WeightReader(std::span<const float> weights);  // NOLINT(google-explicit-constructor)
  WeightReader(std::span<float> weights)         // NOLINT(google-explicit-constructor)
      : WeightReader(std::span<const float>(weights)) {}
  WeightReader(const WeightBuffer* weights)  // NOLINT(google-explicit-constructor)
      : WeightReader(
            std::span<const float>(weights->data(), static_cast<size_t>(weights->size()))) {}
  // A reader of an array in the memory of a device. Each piece has all changes that were enqueued
  // before the call and none in part. Throws OutOfMemory.
  explicit WeightReader(DeviceWeights* weights);

  int64_t size() const { return size_; }
  // Calls `use` for consecutive pieces, which are all weights. A piece is a copy in host memory,
  // which `use` may change, until `use` returns. Throws DeviceError if the device has failed.
  void Read(const Use& use) const { read_(use); }
  // Copies size() weights to `to`. Throws as Read does.
  void Copy(float* to) const;

 private:
  int64_t size_;
  std::function<void(const Use& use)> read_;
};

}  // namespace millrace::inline weights

#endif  // MILLRACE_WEIGHTS_WEIGHT_READER_H_
