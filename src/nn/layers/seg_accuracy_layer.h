// Accuracies of a segmentation, as in DeepLab. Bottoms: scores {N, classes, ..}, labels (one per
// position, see Labels). The predicted class of a position is that of its best score, the last of
// equal ones. The top {1, 1, 1, 3} has, of the counted positions,
//   [0] right positions / positions                                           (0 if there are none)
//   [1] the mean over the classes that occur as labels of: right / positions with this label
//                                                                             (0 if there are none)
//   [2] the mean over all classes of: right / positions with this label or prediction
//                                                        (1 for a class that is neither: Caffe's)
// Positions with a seg_accuracy_param.ignore_label are not counted. Each batch is counted on its
// own; with `reset: false` all batches since the net was built are counted together. `metric` has
// no effect, as there.
#ifndef MILLRACE_NN_LAYERS_SEG_ACCURACY_LAYER_H_
#define MILLRACE_NN_LAYERS_SEG_ACCURACY_LAYER_H_

#include <memory>

#include "millrace/layer.h"
#include "nn/layers/softmax_layer.h"

namespace millrace::inline nn {

class SegAccuracyLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"seg_accuracy_param"}; }
  bool AllowBackward(int) const override { return false; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  // Accuracies have no gradient.
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  bool IsIgnored(float label) const;

  AxisView view_;
  Buffer ignored_;          // floats: the labels that are not counted
  Buffer positions_;        // a SegmentedPosition for each
  Buffer counts_;           // ClassCounts of each class
  Buffer invalid_;          // a float: the number of labels that are no classes
  Buffer invalid_on_host_;  // the same in staging memory
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SEG_ACCURACY_LAYER_H_
