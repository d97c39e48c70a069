#include "nn/layers/roi_pooling_layer.h"

#include "device/kernel.h"
#include "nn/layers/shape_field.h"

namespace millrace::inline nn {

void RoiPoolingLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::ROIPoolingParameter& param = param_.roi_pooling_param();
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom[0]", "has ", bottom[0]->num_axes(), " axes, expected 4 (N, C, H, W)");
  }
  const auto positive = [](const char* field, uint32_t value) {
    if (value == 0) throw FieldError(field, "0 given or missing, expected at least 1");
    return int64_t{value};
  };
  shape_.pooled_h = positive("roi_pooling_param.pooled_h", param.pooled_h());
  shape_.pooled_w = positive("roi_pooling_param.pooled_w", param.pooled_w());
  shape_.scale = param.spatial_scale();
  if (!(shape_.scale > 0)) {
    throw FieldError("roi_pooling_param.spatial_scale", shape_.scale,
                     " given, expected a positive number");
  }
  list_.Reserve(*context_.queue);
}

void RoiPoolingLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  list_.Reshape(*bottom[1], 1, bottom[0]->dim(0));
  const Shape& from = bottom[0]->shape();
  shape_.images = from[0];
  shape_.channels = shape_.top_channels = from[1];
  shape_.height = from[2];
  shape_.width = from[3];
  shape_.regions = bottom[1]->dim(0);
  const Shape shape = {shape_.regions, shape_.channels, shape_.pooled_h, shape_.pooled_w};
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    count = CheckedProduct(count, shape[i], "roi_pooling_param", i < 2 ? 0 : 1);
  }
  if (bottom[0]->count(2) > INT32_MAX) {
    throw FieldError("bottom[0]", ShapeText(from), " given, expected planes of at most ", INT32_MAX,
                     " values");
  }
  top[0]->Reshape(shape);
  if (place_.bytes() < count * sizeof(int32_t)) {
    context_.queue->Synchronize();  // work that has been enqueued may use the old memory
    place_ = Buffer(memory(), count * sizeof(int32_t));
  }
}

void RoiPoolingLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  Launch(queue, top[0]->count(),
         RoiMaxForward{shape_, bottom[0]->data(), bottom[1]->data(), top[0]->data(),
                       place_.get<int32_t>()});
  list_.EnqueueCheck(queue, *bottom[1], shape_.images);
}

void RoiPoolingLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                               const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Queue& queue = *context_.queue;
  const float* const regions = bottom[1]->data();
  const int32_t* const place = place_.get<int32_t>();
  float* const diff = bottom[0]->diff();
  if (queue.device().type() == DeviceType::kCpu) {
    queue.Fill(diff, 0, bottom[0]->count() * sizeof(float));
    Launch(queue, shape_.images * shape_.channels,
           RoiMaxScatter{shape_, regions, place, top[0]->diff(), diff});
  } else {
    Launch(queue, bottom[0]->count(), RoiMaxGather{shape_, regions, place, top[0]->diff(), diff});
  }
}

namespace {

const RegisterLayer<RoiPoolingLayer> registered("ROIPooling");

}  // namespace
}  // namespace millrace::inline nn
