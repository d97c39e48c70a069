// Local response normalisation (Krizhevsky, Sutskever, Hinton, NIPS 2012):
//
//   top = bottom / (k + alpha/n * sum of bottom^2 over the region)^beta
//
// ACROSS_CHANNELS: the region is local_size channels around this one, n = local_size.
// WITHIN_CHANNEL: the region is a local_size x local_size window around this value, n =
// local_size^2, and k is 1 whatever the file says, as in Caffe.
//
// Values beyond the edges are zero; n does not change there. In place, the layer keeps a copy of
// the bottom, and copies the gradient before it overwrites it.
#ifndef MILLRACE_NN_LAYERS_LRN_LAYER_H_
#define MILLRACE_NN_LAYERS_LRN_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/kept_bottom.h"

namespace millrace::inline nn {

class LrnLayer : public Layer {
 public:
  LrnLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), kept_(memory()), top_diff_(memory()) {}

  bool MayWorkInPlace() const override { return true; }
  std::set<std::string> fields() const override { return {"lrn_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;

 protected:
  bool across() const {
    return param_.lrn_param().norm_region() == caffe::LRNParameter::ACROSS_CHANNELS;
  }
  // For Reshape.
  void ReshapeTop(const Blobs& bottom, const Blobs& top) {
    top[0]->ReshapeLike(*bottom[0]);
    kept_.Reshape(*bottom[0], *top[0]);
  }
  // dE/dtop in memory that dE/dbottom does not overwrite.
  const float* TopDiff(const Blob& bottom, const Blob& top) {
    if (&bottom != &top) return top.diff();
    top_diff_.ReshapeLike(top);
    context_.queue->Copy(top_diff_.data(), top.diff(), top.count() * sizeof(float));
    return top_diff_.data();
  }
  float k() const { return across() ? param_.lrn_param().k() : 1.0f; }

  KeptBottom kept_;
  Blob top_diff_;  // in place: a copy
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LRN_LAYER_H_
