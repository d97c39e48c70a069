// Base of the layers whose top has the bottom's values in another shape (Reshape, Flatten):
//   top = bottom      dE/dbottom = dE/dtop
// The top uses the bottom's memory for its values, unless a later layer works in place on it.
#ifndef MILLRACE_NN_LAYERS_VIEW_LAYER_H_
#define MILLRACE_NN_LAYERS_VIEW_LAYER_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

class ViewLayer : public Layer {
 public:
  using Layer::Layer;

  bool SharesData() const override { return shares_; }
  void StopSharing(const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 protected:
  // A shape with as many values as the bottom's. Throws FieldError.
  virtual Shape TopShape(const Blob& bottom) const = 0;

 private:
  bool shares_ = true;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_VIEW_LAYER_H_
