// Finds out from results in which arithmetic a device's library computes. Factors lie so near to 1
// that fewer bits cannot hold the difference `e`, and their products cancel out but for it: a
// result is a known multiple of e, or 0 where the factors were rounded.
#ifndef MILLRACE_TEST_GPU_ARITHMETIC_PROBE_H_
#define MILLRACE_TEST_GPU_ARITHMETIC_PROBE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device.h"
#include "nn/gpu/gpu_library.h"

namespace millrace::test {

// 1 + this is a float32; nearest in TF32 is 1. 1 + the second is in TF32; nearest in bfloat16 is 1.
inline constexpr float kBelowTf32 = 0x1p-12f, kBelowBfloat16 = 0x1p-9f;

class ArithmeticProbe {
 public:
  // A convolution of `channels` (even) to as many, on `images` (even) of size x size. For its
  // kernel of 2x2 there are no algorithms by transforms (Winograd's), whose roundings differ.
  ArithmeticProbe(Queue& queue, GpuLibrary& library, int64_t images, int64_t channels, int64_t size)
      : queue_(queue),
        library_(library),
        p_{.images = images,
           .channels = channels,
           .height = size,
           .width = size,
           .outputs = channels,
           .out_height = size - 1,
           .out_width = size - 1,
           .group = 1,
           .kernel = {2, 2},
           .stride = {1, 1},
           .pad = {0, 0},
           .dilation = {1, 1}},
        plan_(library.PlanConvolution(p_, KeptInput::kBottom)),
        workspace_(queue.device().memory(), plan_->workspace_bytes()) {}

  // Compute a pass (or a matrix product) and return a result as a multiple of what it is if factors
  // keep their bits: about 1 or about 0.
  double Forward(float e) {
    // The second half of the channels counts negative.
    const Buffer bottom =
        Images(p_.height, [&](int64_t, int64_t c) { return c < p_.channels / 2 ? 1 + e : 1.0f; });
    const Buffer weights = Weights([&](int64_t, int64_t c) { return Sign(c); });
    const Buffer top = Images(p_.out_height, [](int64_t, int64_t) { return 0.0f; });
    plan_->Renew(bottom.get<float>());
    plan_->Forward(bottom.get<float>(), weights.get<float>(), top.get<float>(), workspace_.get());
    return Value(top, 0) / (0.5 * kTaps * p_.channels * e);
  }
  double BackwardData(float e) {
    const Buffer top = Images(
        p_.out_height, [&](int64_t, int64_t o) { return o < p_.outputs / 2 ? 1 + e : -1.0f; });
    const Buffer weights = Weights([](int64_t, int64_t) { return 1.0f; });
    const Buffer bottom = Images(p_.height, [](int64_t, int64_t) { return 0.0f; });
    plan_->Renew(top.get<float>());
    plan_->BackwardData(top.get<float>(), weights.get<float>(), bottom.get<float>(),
                        workspace_.get());
    // A pixel that all windows reach.
    return Value(bottom, p_.width + 1) / (0.5 * kTaps * p_.outputs * e);
  }
  double BackwardWeights(float e) {
    const Buffer bottom =
        Images(p_.height, [&](int64_t n, int64_t) { return n % 2 == 0 ? 1 + e : 1.0f; });
    const Buffer top =
        Images(p_.out_height, [&](int64_t n, int64_t) { return n % 2 == 0 ? 1.0f : -1.0f; });
    const Buffer weights = Weights([](int64_t, int64_t) { return 0.0f; });
    plan_->Renew(bottom.get<float>());
    plan_->Renew(top.get<float>());
    plan_->BackwardWeights(bottom.get<float>(), top.get<float>(), false, weights.get<float>(),
                           workspace_.get());
    return Value(weights, 0) / (0.5 * p_.images * p_.out_height * p_.out_width * e);
  }
  double Product(float e) {
    const int64_t n = 4 * p_.channels;  // a square matrix times another
    const Buffer a = Array(n * n, [&](int64_t i) { return i % n < n / 2 ? 1 + e : 1.0f; });
    const Buffer b = Array(n * n, [&](int64_t i) { return i / n < n / 2 ? 1.0f : -1.0f; });
    const Buffer c = Array(n * n, [](int64_t) { return 0.0f; });
    library_.Multiply(false, false, n, n, n, a.get<float>(), b.get<float>(), false, c.get<float>());
    return Value(c, 0) / (0.5 * static_cast<double>(n) * e);
  }

  // The arithmetic of all passes, as the library reports it; "" if passes differ, or one is
  // missing. Adds a line on the algorithms to `*text`.
  std::string Reported(std::string* text) const {
    const std::vector<PassAlgorithm> passes = plan_->algorithms();
    if (passes.size() != 3) return "";
    bool same = true;
    for (const PassAlgorithm& each : passes) {
      *text +=
          " " + each.pass + ": algorithm " + std::to_string(each.number) + " in " + each.arithmetic;
      same = same && each.arithmetic == passes[0].arithmetic;
    }
    return same ? passes[0].arithmetic : "";
  }

 private:
  static constexpr int64_t kTaps = 4;

  float Sign(int64_t channel) const { return channel < p_.channels / 2 ? 1.0f : -1.0f; }
  Buffer Array(int64_t count, const std::function<float(int64_t)>& value) {
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = value(i);
    MemorySpace& memory = queue_.device().memory();
    Buffer array(memory, count * sizeof(float));
    memory.CopyFromHost(array.get(), values.data(), array.bytes());
    return array;
  }
  Buffer Images(int64_t size, const std::function<float(int64_t, int64_t)>& of_channel) {
    const int64_t plane = size * size;
    return Array(p_.images * p_.channels * plane, [&](int64_t i) {
      return of_channel(i / plane / p_.channels, i / plane % p_.channels);
    });
  }
  Buffer Weights(const std::function<float(int64_t, int64_t)>& of_pair) {
    return Array(p_.outputs * p_.channels * kTaps, [&](int64_t i) {
      return of_pair(i / kTaps / p_.channels, i / kTaps % p_.channels);
    });
  }
  double Value(const Buffer& array, int64_t i) {
    queue_.Synchronize();
    float value = 0;
    queue_.device().memory().CopyToHost(&value, array.get<float>() + i, sizeof(value));
    return value;
  }

  Queue& queue_;
  GpuLibrary& library_;
  const ConvolutionProblem p_;
  const std::unique_ptr<ConvolutionPlan> plan_;
  const Buffer workspace_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_GPU_ARITHMETIC_PROBE_H_
