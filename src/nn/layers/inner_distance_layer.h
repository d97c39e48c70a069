// Distances of examples from centers, as in happynear/caffe-windows:
//   top[m][n] = sum over k of (x[m][k] - c[n][k])^2   with distance_type "L2"
//   top[m][n] = sum over k of |x[m][k] - c[n][k]|     with distance_type "L1"
// Bottoms: x, whose axes from `axis` on are the features k and those before it the examples m;
// optionally the centers {N, ..}; with update_center_only the labels of the examples, as the last.
// Without the second, the centers are learnable, {num_output, features}.
//
// `normalize` scales learnable centers to the length 1 (unit_rows.h). With update_center_only the
// gradient of a center is that of the distances of examples of its own class; that of x is not
// changed. `bias_term` and `bias_filler` have no effect, as there.
#ifndef MILLRACE_NN_LAYERS_INNER_DISTANCE_LAYER_H_
#define MILLRACE_NN_LAYERS_INNER_DISTANCE_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/index_check.h"
#include "nn/layers/inner_distance_kernels.h"
#include "nn/layers/softmax_layer.h"
#include "nn/layers/unit_rows.h"

namespace millrace::inline nn {

class InnerDistanceLayer : public Layer {
 public:
  InnerDistanceLayer(const caffe::LayerParameter& param, const LayerContext& context);

  Arity arity() const override { return {labelled() ? 2 : 1, labelled() ? 3 : 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"inner_distance_param"}; }
  bool AllowBackward(int bottom) const override {
    return bottom == 0 || (bottom == 1 && params_.empty());
  }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  bool labelled() const { return param_.inner_distance_param().update_center_only(); }
  bool normalizes() const { return param_.inner_distance_param().normalize() && !params_.empty(); }
  // The centers that the distances are taken from.
  const float* Centers(const Blobs& bottom) const;
  // Enqueues the gradient by Centers().
  void CenterGradient(const Blobs& top, const Blobs& bottom, bool add, float* diff);

  DistanceOfFeature distance_{true};
  int axis_ = 1;
  int64_t features_ = 0;
  AxisView view_;  // of the distances: examples, centers
  UnitRows unit_;
  IndexCheck check_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INNER_DISTANCE_LAYER_H_
