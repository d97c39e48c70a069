// Angular margins of SphereFace (Liu, Wen, Yu, Li, Raj, Song 2017), as in wy1iu/sphereface:
// products of the features with weights of length 1, of which the one with the label's class is
// made smaller, so that features of a class come to lie closer together.
//
// Bottoms: features, whose axes from margin_inner_product_param.axis on form K columns of M rows,
// and labels, one per row. top[0]: the axes of the rows, then num_output. top[1] (optional):
// lambda, without a gradient. Weights W {num_output, K}, no bias. With the angle a between a row x
// and the weights w of a class,
//   top = |x| cos a                                       for other classes than the label
//   top = (lambda |x| cos a + |x| psi(a)) / (1 + lambda)  for the label
//   psi(a) = (-1)^k cos(m a) - 2k   for a from k pi/m to (k + 1) pi/m;  m = 1 (SINGLE) to 4
//   lambda = max(lambda_min, base (1 + gamma n)^-power)
// n counts the forward passes of the run, of all solvers, from `iteration` + 1 on; in other nets,
// those of the net.
//
// Gradients are exact. SphereFace's layer differs in three ways: it sets the weights themselves to
// length 1 in every pass, where W keeps its length here and the gradient is orthogonal to each row;
// it takes the gradient of W as that of a plain product; and it scales the two parts of the
// gradient of x, along w and along x, so that the sum of their squared factors is 1.
#ifndef MILLRACE_NN_LAYERS_MARGIN_INNER_PRODUCT_LAYER_H_
#define MILLRACE_NN_LAYERS_MARGIN_INNER_PRODUCT_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/index_check.h"
#include "nn/layers/labels.h"
#include "nn/layers/margin_inner_product_kernels.h"

namespace millrace::inline nn {

class MarginInnerProductLayer : public Layer {
 public:
  MarginInnerProductLayer(const caffe::LayerParameter& param, const LayerContext& context);

  Arity arity() const override { return {2, 2, 1, 2}; }
  std::set<std::string> fields() const override { return {"margin_inner_product_param"}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  // Of the pass that runs now.
  float Lambda() const;
  MarginScores ScoresOf(const Blobs& bottom) const;

  int axis_ = 1;
  int64_t features_ = 0;  // K
  AxisView view_;         // of the labels: rows, classes
  float lambda_ = 0;      // of the last forward pass
  Blob inverse_example_, inverse_class_, products_, product_diff_, sums_;
  IndexCheck check_;  // of the labels
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_MARGIN_INNER_PRODUCT_LAYER_H_
