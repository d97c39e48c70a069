// Repeats the bottom `tiles` times along `axis`, which may be negative and has the size D:
//   top[.., t D + j, ..] = bottom[.., j, ..]    for t in [0, tiles)
//   dE/dbottom[.., j, ..] = sum over t of dE/dtop[.., t D + j, ..]
#ifndef MILLRACE_NN_LAYERS_TILE_LAYER_H_
#define MILLRACE_NN_LAYERS_TILE_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/strided_copy.h"

namespace millrace::inline nn {

class TileLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"tile_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  int64_t inner_ = 1;  // values that are repeated together
  StridedCopy copy_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_TILE_LAYER_H_
