#include "nn/layers/tile_layer.h"

#include "device/kernel.h"
#include "nn/layers/axis_field.h"
#include "nn/layers/shape_field.h"
#include "nn/layers/tile_kernels.h"

namespace millrace::inline nn {

void TileLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::TileParameter& param = param_.tile_param();
  const int axis = CheckedAxis(*bottom[0], param.axis(), "tile_param.axis");
  if (!param.has_tiles()) throw FieldError("tile_param.tiles", "missing");
  CheckedProduct(bottom[0]->count(), param.tiles(), "tile_param.tiles");
  Shape shape = bottom[0]->shape();
  shape[axis] *= param.tiles();
  top[0]->Reshape(shape);
  inner_ = bottom[0]->count(axis);
  copy_ = StridedCopy();
  copy_.AddAxis(bottom[0]->count(0, axis), inner_, param.tiles() * inner_);
  copy_.AddAxis(param.tiles(), 0, inner_);
  copy_.AddAxis(inner_, 1, 1);
}

void TileLayer::Forward(const Blobs& bottom, const Blobs& top) {
  copy_.Run(*context_.queue, bottom[0]->data(), top[0]->data());
}

void TileLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                         const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         TileGradient{param_.tile_param().tiles(), inner_, top[0]->diff(), bottom[0]->diff()});
}

namespace {

const RegisterLayer<TileLayer> registered("Tile");

}  // namespace
}  // namespace millrace::inline nn
