#include "nn/layers/im2col_layer.h"

#include "device/kernel.h"
#include "nn/layers/shape_field.h"

namespace millrace::inline nn {

void Im2colLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  ConvolutionGeometry g = ReadConvolutionWindows(param_, *bottom[0]);
  Shape shape = g.TopShape(bottom[0]->shape());
  columns_ = ColumnsOf(g, g.Folded(bottom[0]->shape()), g.Folded(shape));
  shape[g.channel_axis] = g.channels * columns_.taps;
  int64_t count = 1;
  for (const int64_t dim : shape) count = CheckedProduct(count, dim, "bottom", 0);
  top[0]->Reshape(shape);
}

void Im2colLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Launch(*context_.queue, top[0]->count(),
         ImageToColumns{columns_, bottom[0]->data(), top[0]->data()});
}

void Im2colLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                           const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         ColumnsToImage{columns_, top[0]->diff(), bottom[0]->diff()});
}

namespace {

const RegisterLayer<Im2colLayer> registered("Im2col");

}  // namespace
}  // namespace millrace::inline nn
