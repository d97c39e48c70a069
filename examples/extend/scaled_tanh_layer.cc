// A layer: top = scale * tanh(bottom), with a learnable scale per channel.
//   layer { type: "ScaledTanh" bottom: "x" top: "y" custom_param { key: "scale" value: "1.7" } }
#include <millrace/layer.h>

#include <algorithm>
#include <cmath>

namespace {

using millrace::Blobs;

class ScaledTanhLayer : public millrace::Layer {
 public:
  using Layer::Layer;

  // One bottom and one top is the default of arity().
  std::set<std::string> custom_params() const override { return {"scale"}; }

  void SetUp(const Blobs& bottom, const Blobs&) override {
    if (bottom[0]->num_axes() < 2) {
      throw millrace::FieldError("bottom", bottom[0]->num_axes(), " axes, expected at least 2");
    }
    millrace::caffe::FillerParameter filler;  // its type is "constant" by default
    filler.set_value(static_cast<float>(CustomNumber("scale", 1)));
    AddParam({bottom[0]->dim(1)}, filler);
  }

  void Reshape(const Blobs& bottom, const Blobs& top) override { top[0]->ReshapeLike(*bottom[0]); }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const float* const x = bottom[0]->data();
    float* const y = top[0]->data();
    ForEach(*bottom[0], [&](int64_t i, int64_t c) { y[i] = scale()[c] * std::tanh(x[i]); });
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    const float* const x = bottom[0]->data();
    const float* const dy = top[0]->diff();
    millrace::Param& param = params_[0];
    if (param.wanted) {
      float* const gradient = param.blob->diff();
      // The first to compute this gradient in an iteration overwrites it, later ones add.
      if (!*param.has_gradient) std::fill_n(gradient, param.blob->count(), 0.0f);
      ForEach(*bottom[0], [&](int64_t i, int64_t c) { gradient[c] += dy[i] * std::tanh(x[i]); });
      *param.has_gradient = true;
    }
    if (!propagate_down[0]) return;
    float* const dx = bottom[0]->diff();
    ForEach(*bottom[0], [&](int64_t i, int64_t c) {
      const float tanh = std::tanh(x[i]);
      dx[i] = dy[i] * scale()[c] * (1 - tanh * tanh);
    });
  }

 private:
  const float* scale() const { return params_[0].blob->data(); }

  // Calls use(index, channel) for every element of a blob in plain order.
  template <typename Use>
  static void ForEach(const millrace::Blob& blob, Use use) {
    const int64_t channels = blob.dim(1), inner = blob.count(2);
    for (int64_t i = 0; i < blob.count(); ++i) use(i, i / inner % channels);
  }
};

const millrace::RegisterLayer<ScaledTanhLayer> registered("ScaledTanh", millrace::DeviceType::kCpu);

}  // namespace
