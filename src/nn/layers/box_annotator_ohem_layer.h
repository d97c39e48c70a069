// BoxAnnotatorOHEM: online hard example mining (Shrivastava, Gupta, Girshick 2016), as in
// daijifeng001/caffe-rfcn. Of each image, the roi_per_img regions with the largest loss are trained
// on; the others get the label ignore_label and weights of 0.
//
// Bottoms: regions {R, 5, ...}, of which only the first number, the image, is read; the loss of
// each {R, 1, ...}; its label {R, 1, ...}; the weights of its box's loss {R, K, ...}. The axes
// after the second, if any, are alike. Tops: labels and weights with the shapes of bottoms 2 and 3.
// Of regions with the same loss, the first ones are taken. No gradient flows to the bottoms.
#ifndef MILLRACE_NN_LAYERS_BOX_ANNOTATOR_OHEM_LAYER_H_
#define MILLRACE_NN_LAYERS_BOX_ANNOTATOR_OHEM_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

class BoxAnnotatorOhemLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {4, 4, 2, 2}; }
  std::set<std::string> fields() const override { return {"box_annotator_ohem_param"}; }
  bool AllowBackward(int) const override { return false; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BOX_ANNOTATOR_OHEM_LAYER_H_
