#include "nn/layers/roi_align_layer.h"

#include <cmath>

#include "device/kernel.h"
#include "nn/layers/roi_align_kernels.h"
#include "nn/layers/shape_field.h"

namespace millrace::inline nn {

void RoiAlignLayer::SetUp(const Blobs& bottom, const Blobs&) {
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom[0]", "has ", bottom[0]->num_axes(), " axes, expected 4 (N, C, H, W)");
  }
  if (param_.has_roi_align_param() && param_.has_roi_pooling_param()) {
    throw FieldError("roi_pooling_param", "given beside roi_align_param, expected one of them");
  }
  constexpr int64_t kMostPoints = 256, kTwo = 2;
  const auto take = [&](const std::string& field, const auto& param) {
    const auto positive = [&](const char* size, uint32_t value) {
      if (value > 0) return int64_t{value};
      throw FieldError(StrCat(field, ".", size), "0 given or missing, expected at least 1");
    };
    shape_.pooled_h = positive("pooled_h", param.pooled_h());
    shape_.pooled_w = positive("pooled_w", param.pooled_w());
    shape_.scale = param.spatial_scale();
    if (shape_.scale > 0 && std::isfinite(shape_.scale)) return;
    throw FieldError(StrCat(field, ".spatial_scale"), shape_.scale,
                     " given, expected a positive number");
  };
  if (param_.has_roi_pooling_param()) {
    take("roi_pooling_param", param_.roi_pooling_param());
    sampling_ = kTwo;
  } else {
    take("roi_align_param", param_.roi_align_param());
    sampling_ = param_.roi_align_param().sampling_ratio();
  }
  if (sampling_ > kMostPoints) {
    throw FieldError("roi_align_param.sampling_ratio", sampling_, " given, expected at most ",
                     kMostPoints);
  }
  list_.Reserve(*context_.queue);
}

void RoiAlignLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  list_.Reshape(*bottom[1], 1, bottom[0]->dim(0));
  const Shape& from = bottom[0]->shape();
  shape_.images = from[0];
  shape_.channels = shape_.top_channels = from[1];
  shape_.height = from[2];
  shape_.width = from[3];
  shape_.regions = bottom[1]->dim(0);
  if (shape_.regions > 0 && bottom[0]->count(2) == 0) {
    throw FieldError("bottom[0]", ShapeText(from), " given, expected planes with values");
  }
  const Shape shape = {shape_.regions, shape_.channels, shape_.pooled_h, shape_.pooled_w};
  const char* const field =
      param_.has_roi_pooling_param() ? "roi_pooling_param" : "roi_align_param";
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    count = CheckedProduct(count, shape[i], field, i < 2 ? 0 : 1);
  }
  top[0]->Reshape(shape);
}

void RoiAlignLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  Launch(queue, top[0]->count(),
         RoiAlignForward{shape_, sampling_, bottom[0]->data(), bottom[1]->data(), top[0]->data()});
  list_.EnqueueCheck(queue, *bottom[1], shape_.images);
}

void RoiAlignLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                             const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Queue& queue = *context_.queue;
  const float* const regions = bottom[1]->data();
  float* const diff = bottom[0]->diff();
  if (queue.device().type() == DeviceType::kCpu) {
    queue.Fill(diff, 0, bottom[0]->count() * sizeof(float));
    Launch(queue, shape_.images * shape_.channels,
           RoiAlignScatter{shape_, sampling_, regions, top[0]->diff(), diff});
  } else {
    Launch(queue, bottom[0]->count(),
           RoiAlignGather{shape_, sampling_, regions, top[0]->diff(), diff});
  }
}

namespace {

const RegisterLayer<RoiAlignLayer> registered("ROIAlign");

}  // namespace
}  // namespace millrace::inline nn
