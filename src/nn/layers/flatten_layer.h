// Joins the axes from `axis` to `end_axis`, inclusive, to one. Both may be negative. By default all
// axes but the first are joined.
#ifndef MILLRACE_NN_LAYERS_FLATTEN_LAYER_H_
#define MILLRACE_NN_LAYERS_FLATTEN_LAYER_H_

#include "nn/layers/view_layer.h"

namespace millrace::inline nn {

class FlattenLayer : public ViewLayer {
 public:
  using ViewLayer::ViewLayer;

  std::set<std::string> fields() const override { return {"flatten_param"}; }

 protected:
  Shape TopShape(const Blob& bottom) const override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_FLATTEN_LAYER_H_
