// Cuts a block out of the first bottom. The second bottom gives its size only:
//   top[i_0, i_1, ..] = bottom[0][i_0 + offset_0, i_1 + offset_1, ..]
// Axes before `axis` keep their size and have offset 0. The others get the second bottom's sizes;
// `offset` has one value for all of them, or one for each, and is 0 by default.
#ifndef MILLRACE_NN_LAYERS_CROP_LAYER_H_
#define MILLRACE_NN_LAYERS_CROP_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/strided_copy.h"

namespace millrace::inline nn {

class CropLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"crop_param"}; }
  // The values of the second bottom are not read.
  Layout BottomLayout(int i, const Blob& bottom) const override {
    return i == 0 ? Layout::kPlain : bottom.layout();
  }
  bool AllowBackward(int bottom) const override { return bottom == 0; }

  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  StridedCopy copy_;   // from the bottom to the top
  int64_t begin_ = 0;  // index in the bottom of the top's first value
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CROP_LAYER_H_
