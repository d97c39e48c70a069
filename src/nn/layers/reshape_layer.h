// Gives the values of the bottom another shape. The axes [axis, axis + num_axes) of the bottom are
// replaced by shape.dim; the others stay. By default all axes are replaced.
//   dim 0    the size of the bottom's axis at this place
//   dim -1   what is left of the bottom's values; at most once
// A negative axis counts from behind the last one: -1 adds axes at the end.
#ifndef MILLRACE_NN_LAYERS_RESHAPE_LAYER_H_
#define MILLRACE_NN_LAYERS_RESHAPE_LAYER_H_

#include "nn/layers/view_layer.h"

namespace millrace::inline nn {

class ReshapeLayer : public ViewLayer {
 public:
  using ViewLayer::ViewLayer;

  std::set<std::string> fields() const override { return {"reshape_param"}; }

 protected:
  Shape TopShape(const Blob& bottom) const override;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_RESHAPE_LAYER_H_
