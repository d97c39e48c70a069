// Mixes the channels of G groups, for ShuffleNet (Zhang, Zhou, Lin, Sun 2017). With C channels and
// K = C / G in each group,
//   top[n, k G + g, ..] = bottom[n, g K + k, ..]
// A layer of forks of Caffe.
#ifndef MILLRACE_NN_LAYERS_SHUFFLE_CHANNEL_LAYER_H_
#define MILLRACE_NN_LAYERS_SHUFFLE_CHANNEL_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/strided_copy.h"

namespace millrace::inline nn {

class ShuffleChannelLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"shuffle_channel_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  StridedCopy copy_;  // from the bottom to the top
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SHUFFLE_CHANNEL_LAYER_H_
