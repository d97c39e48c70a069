#include "weights/weight_reader.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>

#include "millrace/device.h"
#include "weights/copy_weights.h"

namespace millrace::inline weights {
namespace {

constexpr int64_t kHostPiece = 4096;
constexpr int64_t kDevicePiece = 1 << 20;

void ReadHost(std::span<const float> weights, const WeightReader::Use& use) {
  std::array<float, kHostPiece> piece;
  while (!weights.empty()) {
    const size_t count = std::min(weights.size(), piece.size());
    HogwildReadWeights(static_cast<int64_t>(count), weights.data(), piece.data());
    use(std::span(piece).first(count));
    weights = weights.subspan(count);
  }
}

class DeviceReader {
 public:
  explicit DeviceReader(DeviceWeights* weights)
      : weights_(*weights),
        queue_(weights->device().MakeQueue(QueuePriority::kNormal)),
        piece_(weights->device().staging(),
               static_cast<size_t>(std::min(kDevicePiece, weights->size())) * sizeof(float)) {}

  void Read(const WeightReader::Use& use) {
    std::lock_guard lock(mutex_);
    const int64_t size = weights_.size();
    for (int64_t begin = 0; begin < size; begin += kDevicePiece) {
      const auto count = static_cast<size_t>(std::min(kDevicePiece, size - begin));
      // Later changes wait for the copy, as it does for earlier ones.
      weights_.order().Write(*queue_, [&] {
        queue_->CopyToHost(piece_.get(), weights_.data() + begin, count * sizeof(float));
      });
      queue_->Synchronize();
      use({piece_.get<float>(), count});
    }
  }

 private:
  DeviceWeights& weights_;
  std::mutex mutex_;
  const std::unique_ptr<Queue> queue_;
  const Buffer piece_;  // in staging memory
};

}  // namespace

WeightReader::WeightReader(std::span<const float> weights)
    : size_(static_cast<int64_t>(weights.size())),
      read_([weights](const Use& use) { ReadHost(weights, use); }) {}

WeightReader::WeightReader(DeviceWeights* weights)
    : size_(weights->size()),
      read_([reader = std::make_shared<DeviceReader>(weights)](const Use& use) {
        reader->Read(use);
      }) {}

void WeightReader::Copy(float* to) const {
  Read([&to](std::span<const float> piece) { to = std::copy(piece.begin(), piece.end(), to); });
}

}  // namespace millrace::inline weights
