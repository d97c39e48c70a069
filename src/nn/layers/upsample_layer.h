// Enlarges the planes of a 4-axis blob. Two layers of forks of Caffe have this name:
//
// With one bottom, as in forks for YOLO: every value becomes a block of scale_h x scale_w values.
//   top[n, c, y, x] = bottom[n, c, y / scale_h, x / scale_w]    (rounded down)
//   dE/dbottom = the sum of dE/dtop over the block
//
// With two bottoms, as in the fork of SegNet (Badrinarayanan, Kendall, Cipolla 2015): the second
// bottom has the shape of the first and gives the place of each value in its plane of the top,
// row * width + column, as the second top of a Pooling does. The other places of the top are 0.
//   top[n, c, place] = bottom[0][n, c, i]   where place = bottom[1][n, c, i]
//   dE/dbottom[0][n, c, i] = dE/dtop[n, c, place]
// The top is {N, C, upsample_h, upsample_w}, by default height * scale_h - 1 if pad_out_h is set,
// height * scale_h otherwise, and so for the width. A place out of range is an error. If several
// values have the same place, which a pooling with windows that do not overlap excludes, one of
// them is taken. No gradient flows to the second bottom.
//
// `scale` is used where scale_h and scale_w are not set.
#ifndef MILLRACE_NN_LAYERS_UPSAMPLE_LAYER_H_
#define MILLRACE_NN_LAYERS_UPSAMPLE_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/index_check.h"
#include "nn/layers/upsample_kernels.h"

namespace millrace::inline nn {

class UpsampleLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"upsample_param"}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  void CheckForward(const Blobs& bottom) override;

 private:
  UpsampleShape shape_{};
  int64_t top_plane_ = 0;  // values of a plane of the top
  IndexCheck check_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_UPSAMPLE_LAYER_H_
