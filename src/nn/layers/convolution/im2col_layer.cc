// Unfolds the windows of a convolution (convolution_layer.h): for two spatial axes,
//   top[n, (c K_h + i) K_w + j, y, x] = bottom[n, c, y*stride_h - pad_h + i*dilation_h,
//                                                    x*stride_w - pad_w + j*dilation_w]
// with zeros outside the bottom, for a kernel of K_h x K_w; and so on for other numbers of spatial
// axes. The layer reads the fields of convolution_param that describe windows, and ignores
// num_output and the like.
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/convolution/column_convolution.h"
#include "nn/layers/fields.h"

namespace millrace::inline nn {
namespace {

class Im2colLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"convolution_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  ColumnShape columns_{};
};

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

const RegisterLayer<Im2colLayer> im2col_layer("Im2col");

}  // namespace
}  // namespace millrace::inline nn
