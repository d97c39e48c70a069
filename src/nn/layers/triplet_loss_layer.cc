#include "nn/layers/triplet_loss_layer.h"

#include <algorithm>
#include <cmath>

#include "nn/layers/triplet_loss_kernels.h"

namespace millrace::inline nn {

void TripletLossLayer::SetUp(const Blobs&, const Blobs&) {
  const caffe::TripletLossParameter& param = param_.triplet_loss_param();
  if (param.has_margin() && param.has_alpha()) {
    throw FieldError("triplet_loss_param.alpha",
                     "given beside margin, expected one of these names of the margin");
  }
  margin_ = param.has_alpha() ? param.alpha() : param.margin();
  if (!std::isfinite(margin_)) {
    throw FieldError(param.has_alpha() ? "triplet_loss_param.alpha" : "triplet_loss_param.margin",
                     margin_, " given, expected a finite number");
  }
}

void TripletLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  for (size_t i = 1; i < bottom.size(); ++i) CheckSameCount(bottom, i);
  const int64_t triplets = bottom[0]->dim(0);
  features_ = bottom[0]->count(1);
  gap_.Reshape({triplets});
  ReshapeLoss(top, triplets);
}

void TripletLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  const int64_t triplets = gap_.count();
  Launch(queue, triplets,
         TripletGap{
             {bottom[0]->data(), bottom[1]->data(), bottom[2]->data()}, features_, gap_.data()});
  sum_.Enqueue(queue, TripletTerms{margin_, gap_.data()}, {false, 2 * static_cast<float>(triplets)},
               top[0]->data());
}

void TripletLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                const Blobs& bottom) {
  // The gradient of bottom i is that of plus - minus; 0, 1, 2: anchor, positive, negative.
  constexpr struct { int plus, minus; } kParts[] = {{2, 1}, {1, 0}, {0, 2}};
  for (int i = 0; i < 3; ++i) {
    if (!propagate_down[i]) continue;
    Launch(*context_.queue, bottom[i]->count(),
           TripletBackward{sum_.Scale(top[0]->diff()),
                           {margin_, gap_.data()},
                           features_,
                           bottom[kParts[i].plus]->data(),
                           bottom[kParts[i].minus]->data(),
                           bottom[i]->diff()});
  }
}

namespace {
const RegisterLayer<TripletLossLayer> registered("TripletLoss");
}  // namespace

}  // namespace millrace::inline nn
