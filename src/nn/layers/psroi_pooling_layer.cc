#include "nn/layers/psroi_pooling_layer.h"

#include "device/kernel.h"
#include "nn/layers/roi_shape.h"

namespace millrace::inline nn {

void PsRoiPoolingLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::PSROIPoolingParameter& param = param_.psroi_pooling_param();
  CheckRoiImages(bottom);
  constexpr int32_t kMax = 1 << 20;
  const auto positive = [=](const char* field, int32_t value) {
    if (value < 1 || value > kMax) {
      throw FieldError(field, value, " given or missing, expected 1 to ", kMax);
    }
    return int64_t{value};
  };
  shape_.top_channels = positive("psroi_pooling_param.output_dim", param.output_dim());
  shape_.pooled_h = shape_.pooled_w =
      positive("psroi_pooling_param.group_size", param.group_size());
  shape_.scale = param.spatial_scale();
  if (!(shape_.scale > 0)) {
    throw FieldError("psroi_pooling_param.spatial_scale", shape_.scale,
                     " given or missing, expected a positive number");
  }
  list_.Reserve(*context_.queue);
}

void PsRoiPoolingLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  list_.Reshape(*bottom[1], 1, bottom[0]->dim(0));
  const Shape& from = bottom[0]->shape();
  const int64_t channels = shape_.top_channels * shape_.pooled_h * shape_.pooled_w;
  if (from[1] != channels) {
    throw FieldError("bottom[0]", ShapeText(from), " given, expected ", channels,
                     " channels: output_dim * group_size^2");
  }
  TakeBottoms(bottom, &shape_);
  CheckedProduct(shape_.regions, channels, "psroi_pooling_param");
  top[0]->Reshape({shape_.regions, shape_.top_channels, shape_.pooled_h, shape_.pooled_w});
}

void PsRoiPoolingLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  Launch(queue, top[0]->count(),
         RoiSensitiveForward{shape_, bottom[0]->data(), bottom[1]->data(), top[0]->data()});
  list_.EnqueueCheck(queue, *bottom[1], shape_.images);
}

void PsRoiPoolingLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                 const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Queue& queue = *context_.queue;
  const float* const regions = bottom[1]->data();
  float* const diff = bottom[0]->diff();
  if (queue.device().type() == DeviceType::kCpu) {
    queue.Fill(diff, 0, bottom[0]->count() * sizeof(float));
    Launch(queue, shape_.images * shape_.channels,
           RoiSensitiveScatter{shape_, regions, top[0]->diff(), diff});
  } else {
    Launch(queue, bottom[0]->count(), RoiSensitiveGather{shape_, regions, top[0]->diff(), diff});
  }
}

namespace {

const RegisterLayer<PsRoiPoolingLayer> registered("PSROIPooling");

}  // namespace
}  // namespace millrace::inline nn
