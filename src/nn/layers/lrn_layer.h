// Local response normalisation (Krizhevsky, Sutskever, Hinton, NIPS 2012):
//
//   top = bottom / (k + alpha/n * sum of bottom^2 over the region)^beta
//
// ACROSS_CHANNELS: the region is local_size channels around this one, n = local_size.
// WITHIN_CHANNEL: the region is a local_size x local_size window around this value, n =
// local_size^2. Values beyond the edges are zero; n does not change there.
#ifndef MILLRACE_NN_LAYERS_LRN_LAYER_H_
#define MILLRACE_NN_LAYERS_LRN_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

class LrnLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"lrn_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;

 protected:
  bool across() const {
    return param_.lrn_param().norm_region() == caffe::LRNParameter::ACROSS_CHANNELS;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LRN_LAYER_H_
