#include <algorithm>

#include "nn/layers/dropout_layer.h"
#include "nn/layers/lanes.h"
#include "nn/layers/random_key.h"

namespace millrace::inline nn {
namespace {

// Computes Philox4x32-10 (see base/rng.h) for kCounters consecutive counters at once, so that the
// compiler can use vectors.
constexpr int kCounters = 16;
constexpr int kGroup = 4 * kCounters;  // values per group: 4 words per counter

// words[kCounters * j + c] is word j of the block of counter `first` + c.
void PhiloxGroup(uint64_t key, uint64_t first, uint32_t* __restrict words) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t* c0 = words;
  uint32_t* c1 = words + kCounters;
  uint32_t* c2 = words + 2 * kCounters;
  uint32_t* c3 = words + 3 * kCounters;
  for (int i = 0; i < kCounters; ++i) {
    c0[i] = static_cast<uint32_t>(first + i);
    c1[i] = static_cast<uint32_t>((first + i) >> 32);
    c2[i] = c3[i] = 0;
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += kWeyl0, k1 += kWeyl1) {
    for (int i = 0; i < kCounters; ++i) {
      const uint64_t p0 = kMultiplier0 * c0[i];
      const uint64_t p1 = kMultiplier1 * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<uint32_t>(p1);
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<uint32_t>(p0);
    }
  }
}

class DropoutLayerCpu : public DropoutLayer {
 public:
  using DropoutLayer::DropoutLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    DropoutLayer::Reshape(bottom, top);
    if (!drops()) return;
    // Whole groups, so that the mask is written without a remainder loop.
    const size_t bytes = (bottom[0]->count() + kGroup - 1) / kGroup * kGroup;
    if (mask_.bytes() < bytes) mask_ = Buffer(HostMemory(), bytes);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    if (drops()) MakeMask(bottom[0]->count());
    Apply(bottom[0]->data(), bottom[0]->count(), top[0]->data());
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (propagate_down[0]) Apply(top[0]->diff(), bottom[0]->count(), bottom[0]->diff());
  }

 private:
  void MakeMask(int64_t count) {
    const uint64_t key = KeyOfPass(context_, kRngDropout);
    const uint32_t threshold = threshold_;
    alignas(64) uint32_t words[kGroup];
    auto* mask = mask_.get<uint8_t>();
    for (int64_t i = 0; i < count; i += kGroup) {
      PhiloxGroup(key, i / 4, words);
      for (int lane = 0; lane < kGroup; ++lane) mask[i + lane] = words[lane] >= threshold;
    }
  }

  // `out` may equal `in`.
  void Apply(const float* in, int64_t count, float* out) const {
    const float scale = scale_;
    if (drops()) {
      Mask(in, count, out);
    } else if (scale != 1) {
      ForEachLane(count, [=](int64_t i) { out[i] = in[i] * scale; });
    } else if (in != out) {
      std::copy_n(in, count, out);
    }
  }
  void Mask(const float* in, int64_t count, float* out) const {
    const auto* mask = mask_.get<uint8_t>();
    const float scale = scale_;
    ForEachLane(count, [=](int64_t i) { out[i] = in[i] * (static_cast<float>(mask[i]) * scale); });
  }

  Buffer mask_;  // one byte per value: 1 = kept
};

const RegisterLayer<DropoutLayerCpu> registered("Dropout", DeviceType::kCpu);

}  // namespace
}  // namespace millrace::inline nn
