// Bilinear interpolation of the planes of a 4-axis blob, so that the corners of bottom and top
// coincide. Along an axis with `in` values, of which pad_beg and pad_end (not positive) are cut
// off, value j of the top, of `out`, lies at r = j (in - 1) / (out - 1) of the bottom:
//   top[j] = (1 - (r - k)) bottom[k] + (r - k) bottom[k + 1]    with k = r, rounded down
// and so on for both axes. The size of the top, of what the cut leaves:
//   shrink_factor s    (in - 1) / s + 1
//   zoom_factor z      in + (in - 1) (z - 1)
//   both               first the one, then the other
//   height and width   these; beside them, one factor alone counts, and both do not
// A layer of the DeepLab fork of Caffe (Chen, Papandreou, Kokkinos, Murphy, Yuille 2015).
#ifndef MILLRACE_NN_LAYERS_INTERP_LAYER_H_
#define MILLRACE_NN_LAYERS_INTERP_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/interp_kernels.h"

namespace millrace::inline nn {

class InterpLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"interp_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  bool ByFactor() const;
  InterpAxis AxisOf(int64_t size, int64_t wanted) const;

  InterpAxis rows_{}, columns_{};
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INTERP_LAYER_H_
