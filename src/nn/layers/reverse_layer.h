// Turns axes around, as in forks of Caffe for sequences:
//   top[.., i, ..] = bottom[.., size - 1 - i, ..]   for each reverse_param.axis, by default axis 0
#ifndef MILLRACE_NN_LAYERS_REVERSE_LAYER_H_
#define MILLRACE_NN_LAYERS_REVERSE_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/strided_copy.h"

namespace millrace::inline nn {

class ReverseLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"reverse_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 protected:
  // One value for each axis of `bottom`: whether the layer turns it around. Throws FieldError.
  virtual std::vector<bool> ReversedAxes(const Blob& bottom) const;

 private:
  StridedCopy copy_;   // in both directions
  int64_t first_ = 0;  // where the copy begins to read
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_REVERSE_LAYER_H_
