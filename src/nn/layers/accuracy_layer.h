// The fraction of positions whose label is among the top_k best scores. Bottoms: scores, labels
// (one per position, see Labels); classes along accuracy_param.axis.
//   top[0] = correct / counted positions         (0 if none is counted)
//   top[1], optional: the same for each class    (0 for a class without labels)
// A position is correct if fewer than top_k other classes score at least as much as the label does.
// Ties and NaN scores therefore count against the label. Positions with accuracy_param.ignore_label
// are not counted.
#ifndef MILLRACE_NN_LAYERS_ACCURACY_LAYER_H_
#define MILLRACE_NN_LAYERS_ACCURACY_LAYER_H_

#include <optional>

#include "millrace/layer.h"
#include "nn/layers/labels.h"
#include "nn/layers/softmax_layer.h"

namespace millrace::inline nn {

class AccuracyLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 2}; }
  std::set<std::string> fields() const override { return {"accuracy_param"}; }
  bool AllowBackward(int bottom) const override { return (void)bottom, false; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // An accuracy has no gradient. Every propagate_down must be false.
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 protected:
  AxisView view_;
  std::optional<Labels> labels_;
  int64_t top_k_ = 1;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ACCURACY_LAYER_H_
