// Permutes the axes: axis k of the top is axis order[k] of the bottom. Axes that `order` does not
// name follow in their order. A layer of the SSD fork of Caffe.
#ifndef MILLRACE_NN_LAYERS_PERMUTE_LAYER_H_
#define MILLRACE_NN_LAYERS_PERMUTE_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/strided_copy.h"

namespace millrace::inline nn {

class PermuteLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"permute_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  StridedCopy copy_;  // from the bottom to the top
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_PERMUTE_LAYER_H_
