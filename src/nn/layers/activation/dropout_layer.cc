// Dropout (Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014), scaled during training.
// With p = dropout_ratio, 0 <= p <= 1:
//   training:  y = m x / (1 - p),   dE/dx = m dE/dy / (1 - p),
//              where m is 0 with probability p and 1 otherwise
//   testing:   y = x
// With p = 1 every value is 0 in training (Caffe computes 0 times infinity there). Fields of forks:
//   sample_weights_test: true   tests are like training (SegNet)
//   scale_train: false          training does not divide by 1 - p; tests multiply by it (Fast
//   R-CNN)
// The mask is a function of (seed, layer, pass) alone. The layer accepts any memory order and may
// work in place.
#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/activation/dropout_kernels.h"
#include "nn/layers/lanes.h"
#include "nn/layers/layer_interfaces.h"
#include "nn/layers/random_key.h"

namespace millrace::inline nn {
namespace {

class DropoutLayer : public Layer {
 public:
  using Layer::Layer;

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"dropout_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;

 protected:
  bool drops() const {
    return context_.phase == caffe::TRAIN || param_.dropout_param().sample_weights_test();
  }

  // A value is dropped if its 32 random bits, as a number, are below this threshold: p in units of
  // 2^-32.
  uint32_t threshold_ = 0;
  float scale_ = 1;  // of the values that are kept, all of them if the layer does not drop
};

void DropoutLayer::SetUp(const Blobs&, const Blobs&) {
  const double ratio = param_.dropout_param().dropout_ratio();
  if (!(ratio >= 0 && ratio <= 1)) {
    throw FieldError("dropout_param.dropout_ratio", ratio, " given, expected a number from 0 to 1");
  }
  if (ratio == 1 && drops()) {
    LOG(WARNING) << "layer '" << name() << "': dropout_ratio 1 sets every value to 0";
  }
  threshold_ = static_cast<uint32_t>(std::llround(
      std::min(ratio * 0x1p32, static_cast<double>(std::numeric_limits<uint32_t>::max()))));
  const double kept = 1 - ratio;
  if (param_.dropout_param().scale_train()) {
    scale_ = drops() && kept > 0 ? static_cast<float>(1 / kept) : static_cast<float>(!drops());
  } else {
    scale_ = drops() && kept > 0 ? 1.0f : static_cast<float>(kept);
  }
}

void DropoutLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  if (top[0] != bottom[0]) top[0]->ReshapeLike(*bottom[0]);
}

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

const RegisterLayer<DropoutLayerCpu> dropout_layer_cpu("Dropout", DeviceType::kCpu);

class DropoutGpu : public DropoutLayer, public PreparesPass {
 public:
  using DropoutLayer::DropoutLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    DropoutLayer::Reshape(bottom, top);
    if (multiplies()) key_.Allocate(memory());
  }
  void PreparePass() override {
    if (multiplies()) key_.Store(context_, kRngDropout);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    PrepareInForward();
    Apply(bottom[0]->count(), bottom[0]->data(), top[0]->data());
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (propagate_down[0]) Apply(bottom[0]->count(), top[0]->diff(), bottom[0]->diff());
  }

 private:
  bool multiplies() const { return drops() || scale_ != 1; }
  void Apply(int64_t count, const float* in, float* out) {
    if (multiplies()) {
      const uint32_t threshold = drops() ? threshold_ : 0;
      Launch(*context_.queue, DropoutMask::counters(count),
             DropoutMask{key_.get(), threshold, scale_, count, in, out});
    } else if (in != out) {
      context_.queue->Copy(out, in, count * sizeof(float));
    }
  }

  RandomKey key_;
};

const RegisterGpuLayer<DropoutGpu> dropout_layer_gpu("Dropout");

}  // namespace
}  // namespace millrace::inline nn
