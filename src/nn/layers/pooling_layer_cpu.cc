#include <algorithm>

#include "nn/layers/average_pool_kernel.h"
#include "nn/layers/max_pool_kernel.h"
#include "nn/layers/stochastic_pooling_layer.h"
#include "nn/layout.h"
#include "nn/onednn/onednn.h"

namespace millrace::inline nn {
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
    // oneDNN does not tell which values it has chosen, and knows no windows without values.
    by_hand_ = top_view_.inner > 1 || top.size() > 1 || geometry_.empty_windows;
    if (by_hand_) {
      if (is_max()) workspace_ = Buffer(HostMemory(), top[0]->count() * sizeof(int32_t));
      return;
    }
    FindCorrections(*bottom[0], *top[0]);
    onednn::Describe("pooling", [&] { DescribeBoth(DescOf(*bottom[0]), DescOf(*top[0])); });
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    if (by_hand_ && !is_max()) {
      return AveragePoolForward(geometry_, bottom_view_, top_view_, bottom[0]->data(),
                                top[0]->data());
    }
    if (by_hand_) {
      MaxPoolForward(geometry_, bottom_view_, top_view_, bottom[0]->data(), top[0]->data(),
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
      return AveragePoolBackward(geometry_, bottom_view_, top_view_, top[0]->diff(),
                                 bottom[0]->diff());
    }
    if (by_hand_) {
      return MaxPoolBackward(geometry_, bottom_view_, top_view_, top[0]->diff(),
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
  void FindCorrections(const Blob& bottom, const Blob& top) {
    const PoolingGeometry& g = geometry_;
    const bool padded = g.pad[0] > 0 || g.pad[1] > 0;
    exclude_padding_ = !padded;
    corrected_ = false;
    for (int axis : {0, 1}) {
      const int64_t out = top.dim(2 + axis), in = bottom.dim(2 + axis);
      std::vector<float>& factor = factor_[axis];
      factor.assign(out, 1.0f);
      for (int64_t i = 0; i < out && padded; ++i) {
        const int64_t begin = i * g.stride[axis] - g.pad[axis];
        const int64_t end = std::min(begin + g.kernel[axis], in + g.pad[axis]);
        factor[i] = static_cast<float>(g.kernel[axis]) / static_cast<float>(end - begin);
        if (!is_max() && end - begin != g.kernel[axis]) corrected_ = true;
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
  bool by_hand_ = false;  // use this project's kernels
  bool exclude_padding_ = true, corrected_ = false;
  std::vector<float> factor_[2];  // per output row, per output column
  onednn::Op forward_, backward_;
  Buffer workspace_, corrected_diff_;
};

const bool registered = (RegisterPooling<PoolingCpu>(DeviceType::kCpu), true);

}  // namespace
}  // namespace millrace::inline nn
