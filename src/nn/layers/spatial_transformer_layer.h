// Spatial transformer (Jaderberg, Simonyan, Zisserman, Kavukcuoglu 2015), as in daerduoCarey's and
// christopher5106's forks of Caffe: samples of each image at places that an affine matrix gives.
//
// Bottoms: values U {N, C, H, W}, and the matrices {N, 6 - F}: theta_1_1, theta_1_2, theta_1_3,
// theta_2_1, theta_2_2, theta_2_3 without the F numbers that st_param fixes. If all are fixed, the
// second bottom is optional and is not read. Top: {N, C, output_H, output_W}, by default H and W.
// Rows come first. Row s and column t of the top have coordinates from -1 (inclusive) to 1
// (exclusive),
//   g = 2 s / output_H - 1,   h = 2 t / output_W - 1
// and lie in the bottom at
//   row     H (theta_1_1 g + theta_1_2 h + theta_1_3 + 1) / 2
//   column  W (theta_2_1 g + theta_2_2 h + theta_2_3 + 1) / 2
// The top is the bilinear interpolation of the 4 pixels around; those outside of the image are 0.
// On a pixel, where the derivative has a jump, the gradient of the matrix is that towards larger
// rows and columns (in the forks it is 0 there). With to_compute_dU: false, no gradient flows to U.
#ifndef MILLRACE_NN_LAYERS_SPATIAL_TRANSFORMER_LAYER_H_
#define MILLRACE_NN_LAYERS_SPATIAL_TRANSFORMER_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/spatial_transformer_kernels.h"

namespace millrace::inline nn {

class SpatialTransformerLayer : public Layer {
 public:
  SpatialTransformerLayer(const caffe::LayerParameter& param, const LayerContext& context);

  Arity arity() const override { return {given() > 0 ? 2 : 1, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"st_param"}; }
  bool AllowBackward(int bottom) const override {
    return bottom == 0 ? param_.st_param().to_compute_du() : given() > 0;
  }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  int64_t given() const { return shape_.matrix.given; }
  TransformerShape ShapeWith(const Blobs& bottom) const;

  TransformerShape shape_{};  // without the address of theta
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SPATIAL_TRANSFORMER_LAYER_H_
