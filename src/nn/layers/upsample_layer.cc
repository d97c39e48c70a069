#include "nn/layers/upsample_layer.h"

#include "device/kernel.h"
#include "nn/layers/shape_field.h"

namespace millrace::inline nn {
namespace {

constexpr int64_t kMaxPlaces = 1 << 24;  // that a float represents exactly

}  // namespace

void UpsampleLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::UpsampleParameter& param = param_.upsample_param();
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom", "has ", bottom[0]->num_axes(), " axes, expected 4 (N, C, H, W)");
  }
  shape_.scale_h = param.has_scale_h() ? param.scale_h() : param.scale();
  shape_.scale_w = param.has_scale_w() ? param.scale_w() : param.scale();
  if (shape_.scale_h < 1 || shape_.scale_w < 1) {
    throw FieldError("upsample_param.scale", "0 given, expected at least 1");
  }
  const bool sized =
      param.has_upsample_h() || param.has_upsample_w() || param.pad_out_h() || param.pad_out_w();
  if (bottom.size() == 1 && sized) {
    throw FieldError("upsample_param",
                     "upsample_h, upsample_w, pad_out_h and pad_out_w need a "
                     "second bottom with the places of the values");
  }
  if (bottom.size() > 1) check_.Reserve(*context_.queue);
}

void UpsampleLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::UpsampleParameter& param = param_.upsample_param();
  shape_.height = bottom[0]->dim(2);
  shape_.width = bottom[0]->dim(3);
  Shape shape = bottom[0]->shape();
  shape[2] = param.has_upsample_h() ? param.upsample_h()
                                    : shape_.height * shape_.scale_h - param.pad_out_h();
  shape[3] = param.has_upsample_w() ? param.upsample_w()
                                    : shape_.width * shape_.scale_w - param.pad_out_w();
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    count = CheckedProduct(count, shape[i], "upsample_param", i < 2 ? 0 : 1);
  }
  top[0]->Reshape(shape);
  top_plane_ = shape[2] * shape[3];
  if (bottom.size() == 1) return;
  if (bottom[1]->shape() != bottom[0]->shape()) {
    throw FieldError("bottom[1]", "has shape ", ShapeText(bottom[1]->shape()),
                     ", expected that of bottom[0], ", ShapeText(bottom[0]->shape()));
  }
  if (top_plane_ > kMaxPlaces) {
    throw FieldError("upsample_param", "a plane of the top has ", top_plane_,
                     " values, expected at most ", kMaxPlaces);
  }
}

void UpsampleLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  float* const to = top[0]->data();
  if (bottom.size() == 1) {
    return Launch(queue, top[0]->count(), UpsampleNearest{shape_, bottom[0]->data(), to});
  }
  const int64_t count = bottom[0]->count();
  const float* const mask = bottom[1]->data();
  queue.Fill(to, 0, top[0]->count() * sizeof(float));
  Launch(queue, count,
         UpsampleByMask{{shape_.height * shape_.width, top_plane_, mask}, bottom[0]->data(), to});
  check_.Enqueue(queue, top_plane_, count, mask);
}

void UpsampleLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                             const Blobs& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = bottom[0]->count();
  const float* const from = top[0]->diff();
  float* const to = bottom[0]->diff();
  if (bottom.size() == 1) {
    Launch(*context_.queue, count, UpsampleNearestGradient{shape_, from, to});
  } else {
    Launch(*context_.queue, count,
           UpsampleByMaskGradient{
               {shape_.height * shape_.width, top_plane_, bottom[1]->data()}, from, to});
  }
}

void UpsampleLayer::CheckForward(const Blobs& bottom) {
  if (bottom.size() > 1) check_.Check(name(), top_plane_, *bottom[1]);
}

namespace {

const RegisterLayer<UpsampleLayer> registered("Upsample");

}  // namespace
}  // namespace millrace::inline nn
