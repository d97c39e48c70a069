// Unfolds the windows of a convolution (convolution_layer.h): for two spatial axes,
//   top[n, (c K_h + i) K_w + j, y, x] = bottom[n, c, y*stride_h - pad_h + i*dilation_h,
//                                                    x*stride_w - pad_w + j*dilation_w]
// with zeros outside the bottom, for a kernel of K_h x K_w; and so on for other numbers of spatial
// axes. The layer reads the fields of convolution_param that describe windows, and ignores
// num_output and the like.
#ifndef MILLRACE_NN_LAYERS_IM2COL_LAYER_H_
#define MILLRACE_NN_LAYERS_IM2COL_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/column_shape.h"

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_IM2COL_LAYER_H_
