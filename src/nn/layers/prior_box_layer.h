// Prior boxes of SSD (Liu and others 2016): at each cell of a feature map, boxes of several sizes
// and aspect ratios. They depend on shapes alone. Bottoms: the feature map {.., .., H, W}; the
// image
// {.., .., h, w}, which is not needed if img_size, or img_h and img_w, are given.
//
// With step_w = w / W, or as given, and the same for heights, the centre of the boxes of cell (i,
// j) is ((j + offset) * step_w, (i + offset) * step_h) pixels. For each min_size s (a whole number
// of pixels; others are truncated, as in SSD), in this order:
//   s x s;  if there are max_sizes m: sqrt(s m) squared;  then for each aspect ratio r other than
//   1, with flip followed by 1 / r:  s sqrt(r) x s / sqrt(r)
// Aspect ratios that are there already are skipped.
//
// top {1, 2, H * W * boxes * 4}: xmin, ymin, xmax, ymax of each box, as shares of the image, with
// clip limited to [0, 1]; then as many variances: `variance`, one number or four; default 0.1.
#ifndef MILLRACE_NN_LAYERS_PRIOR_BOX_LAYER_H_
#define MILLRACE_NN_LAYERS_PRIOR_BOX_LAYER_H_

#include <vector>

#include "millrace/layer.h"

namespace millrace::inline nn {

class PriorBoxLayer : public Layer {
 public:
  PriorBoxLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), boxes_(memory()) {}

  Arity arity() const override { return {1, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"prior_box_param"}; }
  Layout BottomLayout(int, const Blob& bottom) const override { return bottom.layout(); }
  bool AllowBackward(int) const override { return false; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  struct Size {
    float width, height;
    bool operator==(const Size&) const = default;
  };

  // The boxes of one cell, in pixels.
  std::vector<Size> SizesOfCell() const;
  std::vector<float> Compute(const Size& map, const Size& image) const;

  std::vector<Size> sizes_;
  Size map_{0, 0}, image_{0, 0};  // that boxes_ was computed for
  Blob boxes_;                    // the values of the top
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_PRIOR_BOX_LAYER_H_
