// One scale for all channels of a position, as in happynear/caffe-windows. Bottoms: x {N, C, ..},
// scales (one for each position of each image: N times the size of one channel).
//   top[n][c][i] = scale[n][i] x[n][c][i]        (x, if not do_forward)
//   dE/dx[n][c][i] = scale[n][i] dE/dtop[n][c][i]  (dE/dtop, if not do_backward_feature)
//   dE/dscale[n][i] = sum over c of x[n][c][i] dE/dtop[n][c][i]  (0, if not do_backward_scale)
// It gives values that were divided by their norms these norms back. The fork's `global_scale`, a
// running mean of the scales, is refused.
#ifndef MILLRACE_NN_LAYERS_CHANNEL_SCALE_LAYER_H_
#define MILLRACE_NN_LAYERS_CHANNEL_SCALE_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

class ChannelScaleLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"channel_scale_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  // Enqueues out = scale * in, or a copy.
  void Scale(bool scales, const Blobs& bottom, const float* in, float* out);

  int64_t channels_ = 0, area_ = 0;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CHANNEL_SCALE_LAYER_H_
