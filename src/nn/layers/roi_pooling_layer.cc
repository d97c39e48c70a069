#include "nn/layers/roi_pooling_layer.h"

#include "device/kernel.h"
#include "nn/layers/roi_shape.h"

namespace millrace::inline nn {

void RoiPoolingLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::ROIPoolingParameter& param = param_.roi_pooling_param();
  CheckRoiImages(bottom);
  shape_.pooled_h = PooledSize("roi_pooling_param.pooled_h", param.pooled_h());
  shape_.pooled_w = PooledSize("roi_pooling_param.pooled_w", param.pooled_w());
  shape_.scale = param.spatial_scale();
  if (!(shape_.scale > 0)) {
    throw FieldError("roi_pooling_param.spatial_scale", shape_.scale,
                     " given, expected a positive number");
  }
  list_.Reserve(*context_.queue);
}

void RoiPoolingLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  list_.Reshape(*bottom[1], 1, bottom[0]->dim(0));
  TakeBottoms(bottom, &shape_);
  shape_.top_channels = shape_.channels;
  const Shape shape = PooledShape(shape_, "roi_pooling_param");
  if (bottom[0]->count(2) > INT32_MAX) {
    throw FieldError("bottom[0]", ShapeText(bottom[0]->shape()),
                     " given, expected planes of at most ", INT32_MAX, " values");
  }
  top[0]->Reshape(shape);
  const size_t bytes = top[0]->count() * sizeof(int32_t);
  if (place_.bytes() < bytes) {
    context_.queue->Synchronize();  // work that has been enqueued may use the old memory
    place_ = Buffer(memory(), bytes);
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
