#include "nn/layers/roi_align_layer.h"

#include <cmath>

#include "device/kernel.h"
#include "nn/layers/roi_align_kernels.h"
#include "nn/layers/roi_shape.h"

namespace millrace::inline nn {

void RoiAlignLayer::SetUp(const Blobs& bottom, const Blobs&) {
  CheckRoiImages(bottom);
  if (param_.has_roi_align_param() && param_.has_roi_pooling_param()) {
    throw FieldError("roi_pooling_param", "given beside roi_align_param, expected one of them");
  }
  constexpr int64_t kMaxPoints = 256, kTwo = 2;
  const auto take = [&](const std::string& field, const auto& param) {
    shape_.pooled_h = PooledSize(field + ".pooled_h", param.pooled_h());
    shape_.pooled_w = PooledSize(field + ".pooled_w", param.pooled_w());
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
  if (sampling_ > kMaxPoints) {
    throw FieldError("roi_align_param.sampling_ratio", sampling_, " given, expected at most ",
                     kMaxPoints);
  }
  list_.Reserve(*context_.queue);
}

void RoiAlignLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  list_.Reshape(*bottom[1], 1, bottom[0]->dim(0));
  TakeBottoms(bottom, &shape_);
  shape_.top_channels = shape_.channels;
  if (shape_.regions > 0 && bottom[0]->count(2) == 0) {
    throw FieldError("bottom[0]", ShapeText(bottom[0]->shape()),
                     " given, expected planes with values");
  }
  top[0]->Reshape(PooledShape(
      shape_, param_.has_roi_pooling_param() ? "roi_pooling_param" : "roi_align_param"));
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
