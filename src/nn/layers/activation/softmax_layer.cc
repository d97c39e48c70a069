#include "nn/layers/activation/softmax_layer.h"

#include <algorithm>
#include <cmath>

#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/activation/softmax_kernels.h"
#include "nn/layers/lanes.h"

namespace millrace::inline nn {

AxisView::AxisView(const Blob& blob, int axis, const char* field) {
  if (axis < -blob.num_axes() || axis >= blob.num_axes()) {
    throw FieldError(field, axis, " is not an axis of a blob with ", blob.num_axes(), " axes");
  }
  const int canonical = axis < 0 ? axis + blob.num_axes() : axis;
  outer = blob.count(0, canonical);
  classes = blob.dim(canonical);
  inner = blob.count(canonical + 1);
}

void SoftmaxLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  view_ = AxisView(*bottom[0], param_.softmax_param().axis(), "softmax_param.axis");
  if (top[0] != bottom[0]) top[0]->ReshapeLike(*bottom[0]);
}

namespace {

// Inner positions that are processed together; their sums stay on the stack.
constexpr int64_t kTile = 64;

// One row whose classes are consecutive.
void SoftmaxRow(const float* in, int64_t classes, float* out) {
  float largest = in[0];
  for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, in[c]);
  float sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    out[c] = std::exp(in[c] - largest);
    sum += out[c];
  }
  const float factor = 1 / sum;
  ForEachLane(classes, [=](int64_t c) { out[c] *= factor; });
}

// `width` <= kTile rows. The values of one class are consecutive; the classes are `stride` apart.
void SoftmaxTile(const float* in, int64_t classes, int64_t stride, int64_t width, float* out) {
  float largest[kTile], sum[kTile] = {};
  std::copy_n(in, width, largest);
  for (int64_t c = 1; c < classes; ++c) {
    for (int64_t j = 0; j < width; ++j) largest[j] = std::max(largest[j], in[c * stride + j]);
  }
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t j = 0; j < width; ++j) {
      const float value = std::exp(in[c * stride + j] - largest[j]);
      out[c * stride + j] = value;
      sum[j] += value;
    }
  }
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t j = 0; j < width; ++j) out[c * stride + j] /= sum[j];
  }
}

// Gradient of rows laid out as in SoftmaxTile. `out` may equal `top_diff`.
void GradientTile(const float* top, const float* top_diff, int64_t classes, int64_t stride,
                  int64_t width, float* out) {
  float dot[kTile] = {};
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t j = 0; j < width; ++j) dot[j] += top[c * stride + j] * top_diff[c * stride + j];
  }
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t j = 0; j < width; ++j) {
      const int64_t k = c * stride + j;
      out[k] = top[k] * (top_diff[k] - dot[j]);
    }
  }
}

class SoftmaxLayerCpu : public SoftmaxLayer {
 public:
  using SoftmaxLayer::SoftmaxLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    SoftmaxCpu(view_, bottom[0]->data(), top[0]->data());
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    const float* y = top[0]->data();
    const float* dy = top[0]->diff();
    float* dx = bottom[0]->diff();
    for (int64_t i = 0; i < view_.outer; ++i) {
      for (int64_t j = 0; j < view_.inner; j += kTile) {
        const int64_t k = i * view_.classes * view_.inner + j;
        GradientTile(y + k, dy + k, view_.classes, view_.inner, std::min(kTile, view_.inner - j),
                     dx + k);
      }
    }
  }
};

const RegisterLayer<SoftmaxLayerCpu> softmax_cpu("Softmax", DeviceType::kCpu);

}  // namespace

void SoftmaxCpu(const AxisView& view, const float* in, float* out) {
  for (int64_t i = 0; i < view.outer; ++i) {
    const int64_t row = i * view.classes * view.inner;
    if (view.inner == 1) {
      SoftmaxRow(in + row, view.classes, out + row);
      continue;
    }
    for (int64_t j = 0; j < view.inner; j += kTile) {
      SoftmaxTile(in + row + j, view.classes, view.inner, std::min(kTile, view.inner - j),
                  out + row + j);
    }
  }
}

namespace {

class SoftmaxGpu : public SoftmaxLayer {
 public:
  using SoftmaxLayer::SoftmaxLayer;

  void Forward(const Blobs& bottom, const Blobs& top) override {
    Launch(*context_.queue, view_.outer * view_.inner,
           SoftmaxForward{{view_.classes, view_.inner}, bottom[0]->data(), top[0]->data()});
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    Launch(*context_.queue, view_.outer * view_.inner,
           SoftmaxBackward{
               {view_.classes, view_.inner}, top[0]->data(), top[0]->diff(), bottom[0]->diff()});
  }
};

const RegisterGpuLayer<SoftmaxGpu> softmax_gpu("Softmax");

}  // namespace
}  // namespace millrace::inline nn
