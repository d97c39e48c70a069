#include "nn/layers/pooling/pooling_layer.h"

#include <algorithm>
#include <limits>

#include "device/kernel.h"
#include "nn/gpu/gpu_layer.h"
#include "nn/layers/pooling/host_pooling.h"
#include "nn/layers/pooling/pooling_kernels.h"
#include "nn/layers/pooling/stochastic_pooling_layer.h"
#include "nn/layout.h"
#include "nn/onednn/onednn.h"

namespace millrace::inline nn {

void PoolingLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::PoolingParameter& param = param_.pooling_param();
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom", "pooling needs 4 axes (N, C, H, W), '", param_.bottom(0),
                     "' has shape ", ShapeText(bottom[0]->shape()));
  }
  const bool pair = param.has_kernel_h() || param.has_kernel_w();
  PoolingGeometry& g = geometry_;
  if (param.global_pooling()) {
    if (param.has_kernel_size() || pair) {
      throw FieldError("pooling_param.global_pooling", "the window is the bottom: give no kernel");
    }
  } else if (param.has_kernel_size() == pair ||
             (pair && !(param.has_kernel_h() && param.has_kernel_w()))) {
    throw FieldError("pooling_param", "give kernel_size, or both kernel_h and kernel_w");
  }
  const auto read = [](int64_t out[2], bool has_h, uint32_t h, bool has_w, uint32_t w,
                       uint32_t both) {
    out[0] = has_h ? h : both;
    out[1] = has_w ? w : both;
  };
  read(g.kernel, pair, param.kernel_h(), pair, param.kernel_w(), param.kernel_size());
  read(g.stride, param.has_stride_h(), param.stride_h(), param.has_stride_w(), param.stride_w(),
       param.stride());
  read(g.pad, param.has_pad_h(), param.pad_h(), param.has_pad_w(), param.pad_w(), param.pad());
  for (int axis : {0, 1}) {
    if (param.global_pooling() && (g.pad[axis] != 0 || g.stride[axis] != 1)) {
      throw FieldError("pooling_param.global_pooling", "expects pad 0 and stride 1");
    }
    if (!param.global_pooling() && g.kernel[axis] < 1) {
      throw FieldError("pooling_param.kernel_size", "0 given, expected at least 1");
    }
    if (g.stride[axis] < 1) {
      throw FieldError("pooling_param.stride", "0 given, expected at least 1");
    }
    if (!param.global_pooling() && g.pad[axis] >= g.kernel[axis]) {
      throw FieldError("pooling_param.pad", g.pad[axis], " given, expected less than the kernel, ",
                       g.kernel[axis]);
    }
  }
}

Shape PoolingLayer::TopShape(const Shape& bottom) {
  PoolingGeometry& g = geometry_;
  const caffe::PoolingParameter& param = param_.pooling_param();
  Shape top = {bottom[0], bottom[1], 0, 0};
  const bool padded = g.pad[0] > 0 || g.pad[1] > 0;
  g.empty_windows = false;
  for (int axis : {0, 1}) {
    const int64_t in = bottom[2 + axis];
    if (param.global_pooling()) g.kernel[axis] = in;
    const int64_t room = in + 2 * g.pad[axis] - g.kernel[axis];
    const bool up = param.round_mode() == caffe::PoolingParameter::CEIL && param.ceil_mode();
    // A division rounds towards zero.
    const int64_t add = up == (room > 0) ? g.stride[axis] - 1 : 0;
    int64_t out = (room + (room > 0 ? add : -add)) / g.stride[axis] + 1;
    if (out < 1) {
      throw FieldError("pooling_param.kernel_size", "a window of ", g.kernel[axis],
                       " does not fit into the bottom of shape ", ShapeText(bottom));
    }
    const bool beyond = (out - 1) * g.stride[axis] >= in + g.pad[axis];
    if (beyond && padded) --out;
    g.empty_windows |= beyond && !padded;
    g.overhang[axis] = (out - 1) * g.stride[axis] + g.kernel[axis] - in - g.pad[axis];
    top[2 + axis] = out;
  }
  return top;
}

PoolingShape PoolingLayer::ShapeForKernels(const Shape& bottom, const Shape& top) const {
  PoolingShape shape{};
  for (int axis : {0, 1}) {
    shape.in[axis] = bottom[2 + axis];
    shape.out[axis] = top[2 + axis];
    shape.kernel[axis] = geometry_.kernel[axis];
    shape.stride[axis] = geometry_.stride[axis];
    shape.pad[axis] = geometry_.pad[axis];
  }
  if (shape.in[0] * shape.in[1] > std::numeric_limits<int32_t>::max()) {
    throw FieldError("bottom", "has ", shape.in[0] * shape.in[1],
                     " values in a plane, expected at most ", std::numeric_limits<int32_t>::max());
  }
  return shape;
}

namespace {

using onednn::Desc;
using onednn::DescOf;

class PoolingCpu : public PoolingLayer {
 public:
  using PoolingLayer::PoolingLayer;

  Layout BottomLayout(int, const Blob& bottom) const override {
    if (bottom.layout() != Layout::kPlain) return bottom.layout();
    return FittingLayout(context_.preferred_layout, bottom.shape());
  }

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    const Shape shape = TopShape(bottom[0]->shape());
    for (Blob* blob : top) blob->Reshape(shape, bottom[0]->layout());
    if (bottom[0]->shape() == described_ && bottom[0]->layout() == described_layout_) return;
    described_ = bottom[0]->shape();
    described_layout_ = bottom[0]->layout();
    bottom_view_ = ViewOf(*bottom[0]);
    top_view_ = ViewOf(*top[0]);
    shape_ = ShapeForKernels(described_, shape);
    // oneDNN does not tell which values it has chosen, and knows no windows without values.
    by_hand_ = top_view_.inner > 1 || top.size() > 1 || geometry_.empty_windows;
    if (by_hand_) {
      if (is_max()) workspace_ = Buffer(HostMemory(), top[0]->count() * sizeof(int32_t));
      return;
    }
    FindCorrections();
    onednn::Describe("pooling", [&] { DescribeBoth(DescOf(*bottom[0]), DescOf(*top[0])); });
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    if (by_hand_ && !is_max()) {
      return AveragePoolForward(shape_, bottom_view_, bottom[0]->data(), top[0]->data());
    }
    if (by_hand_) {
      HostMaxPoolForward(shape_, bottom_view_, top_view_, bottom[0]->data(), top[0]->data(),
                         workspace_.get<int32_t>());
      if (top.size() > 1) WriteMask(top[1]->data());
      return;
    }
    forward_.Run({{DNNL_ARG_SRC, bottom[0]->data()},
                  {DNNL_ARG_DST, top[0]->data()},
                  {DNNL_ARG_WORKSPACE, workspace_.get()}});
    if (corrected_) Correct(*top[0], top[0]->data());
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    if (by_hand_ && !is_max()) {
      return AveragePoolBackward(shape_, top_view_, top[0]->diff(), bottom[0]->diff());
    }
    if (by_hand_) {
      return HostMaxPoolBackward(shape_, bottom_view_, top_view_, top[0]->diff(),
                                 workspace_.get<int32_t>(), bottom[0]->diff());
    }
    const float* diff = top[0]->diff();
    if (corrected_) {
      if (!corrected_diff_.get()) {
        corrected_diff_ = Buffer(HostMemory(), top[0]->count() * sizeof(float));
      }
      std::copy_n(diff, top[0]->count(), corrected_diff_.get<float>());
      Correct(*top[0], corrected_diff_.get<float>());
      diff = corrected_diff_.get<float>();
    }
    backward_.Run({{DNNL_ARG_DIFF_DST, diff},
                   {DNNL_ARG_DIFF_SRC, bottom[0]->diff()},
                   {DNNL_ARG_WORKSPACE, workspace_.get()}});
  }

 private:
  // The positions of the chosen values in their planes, in the order of the top.
  void WriteMask(float* mask) const {
    const PoolingGeometry& g = geometry_;
    const auto* which = workspace_.get<int32_t>();
    for (int64_t o = 0; o < top_view_.outer; ++o) {
      for (int64_t y = 0; y < top_view_.height; ++y) {
        const int64_t row = y * g.stride[0] - g.pad[0];
        for (int64_t x = 0; x < top_view_.width; ++x) {
          const int64_t column = x * g.stride[1] - g.pad[1];
          for (int64_t i = 0; i < top_view_.inner; ++i, ++which, ++mask) {
            const int64_t at =
                (row + *which / g.kernel[1]) * bottom_view_.width + column + *which % g.kernel[1];
            *mask = *which < 0 ? -1.0f : static_cast<float>(at);
          }
        }
      }
    }
  }

  // Caffe divides an average by the size of the window clipped to [-pad, in + pad). oneDNN divides
  // by the size of the whole window, or of its part inside the bottom. With pad 0, the part inside
  // the bottom always agrees with Caffe. With padding, the whole window agrees except for the last
  // windows, which reach beyond the trailing padding: these need a correction factor.
  void FindCorrections() {
    const PoolingShape& s = shape_;
    const bool padded = s.pad[0] > 0 || s.pad[1] > 0;
    exclude_padding_ = !padded;
    corrected_ = false;
    for (int axis : {0, 1}) {
      std::vector<float>& factor = factor_[axis];
      factor.assign(s.out[axis], 1.0f);
      for (int64_t i = 0; i < s.out[axis] && padded; ++i) {
        const int64_t size = s.PaddedSize(axis, i);
        factor[i] = static_cast<float>(s.kernel[axis]) / static_cast<float>(size);
        if (!is_max() && size != s.kernel[axis]) corrected_ = true;
      }
    }
  }

  void Correct(const Blob& blob, float* values) const {
    const SpatialView view = ViewOf(blob);
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t y = 0; y < view.height; ++y) {
        for (int64_t x = 0; x < view.width; ++x, values += view.inner) {
          const float factor = factor_[0][y] * factor_[1][x];
          if (factor == 1.0f) continue;
          for (int64_t i = 0; i < view.inner; ++i) values[i] *= factor;
        }
      }
    }
  }

  void DescribeBoth(const Desc& source, const Desc& destination) {
    const PoolingGeometry& g = geometry_;
    const onednn::PoolingWindows windows = {.stride = {g.stride[0], g.stride[1]},
                                            .kernel = {g.kernel[0], g.kernel[1]},
                                            .padding = {g.pad[0], g.pad[1]},
                                            .padding_end = {g.overhang[0], g.overhang[1]}};
    const dnnl::algorithm algorithm = is_max() ? dnnl::algorithm::pooling_max
                                      : exclude_padding_
                                          ? dnnl::algorithm::pooling_avg_exclude_padding
                                          : dnnl::algorithm::pooling_avg_include_padding;
    const onednn::PrimitiveDescs descs = onednn::Descs();
    const auto forward_pd = descs.PoolingForward(algorithm, source, destination, windows);
    const Desc workspace = forward_pd.workspace_desc();
    workspace_ = Buffer(HostMemory(), workspace.get_size());
    forward_ = onednn::MakeOp<dnnl::pooling_forward>(
        forward_pd,
        {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, destination}, {DNNL_ARG_WORKSPACE, workspace}},
        context_.scratch);
    const auto backward_pd =
        descs.PoolingBackward(forward_pd, algorithm, source, destination, windows);
    backward_ = onednn::MakeOp<dnnl::pooling_backward>(backward_pd,
                                                       {{DNNL_ARG_DIFF_DST, destination},
                                                        {DNNL_ARG_DIFF_SRC, source},
                                                        {DNNL_ARG_WORKSPACE, workspace}},
                                                       context_.scratch);
  }

  Shape described_;
  Layout described_layout_ = Layout::kPlain;
  SpatialView bottom_view_{}, top_view_{};
  PoolingShape shape_{};
  bool by_hand_ = false;  // use this project's kernels
  bool exclude_padding_ = true, corrected_ = false;
  std::vector<float> factor_[2];  // per output row, per output column
  onednn::Op forward_, backward_;
  Buffer workspace_, corrected_diff_;
};

const bool pooling_cpu = (RegisterPooling<PoolingCpu>(DeviceType::kCpu), true);

class PoolingGpu : public PoolingLayer {
 public:
  using PoolingLayer::PoolingLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    const Shape shape = TopShape(bottom[0]->shape());
    for (Blob* blob : top) blob->Reshape(shape);
    shape_ = ShapeForKernels(bottom[0]->shape(), shape);
    if (!is_max()) return;
    const size_t bytes = top[0]->count() * sizeof(int32_t);
    if (chosen_.bytes() >= bytes) return;
    context_.queue->Synchronize();  // work may use the old memory
    chosen_ = Buffer(memory(), bytes);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const int64_t count = top[0]->count();
    if (is_max()) {
      Launch(*context_.queue, count,
             MaxPoolForward{shape_, bottom[0]->data(), top[0]->data(), chosen_.get<int32_t>(),
                            top.size() > 1 ? top[1]->data() : nullptr});
    } else {
      Launch(*context_.queue, count, AveragePoolTop{shape_, bottom[0]->data(), top[0]->data()});
    }
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    const int64_t count = bottom[0]->count();
    if (is_max()) {
      Launch(*context_.queue, count,
             MaxPoolBackward{shape_, top[0]->diff(), chosen_.get<int32_t>(), bottom[0]->diff()});
    } else {
      Launch(*context_.queue, count, AveragePoolBottom{shape_, top[0]->diff(), bottom[0]->diff()});
    }
  }

 private:
  PoolingShape shape_{};
  Buffer chosen_;
};

const bool pooling_gpu = (GpuTypes::ForEach(RegisterPooling<PoolingGpu>), true);

}  // namespace
}  // namespace millrace::inline nn
