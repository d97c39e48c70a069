// Synthetic data: a filler fills every top. A constant top is filled once. The other tops are
// filled in every pass, from the random stream with the key (seed, layer, pass).
//
// Shapes come from `shape`, or from the legacy num, channels, height and width. Each field,
// including `data_filler`, is given once for all tops or once per top. Without a `data_filler` the
// tops are zero.
#ifndef MILLRACE_NN_LAYERS_DUMMY_DATA_LAYER_H_
#define MILLRACE_NN_LAYERS_DUMMY_DATA_LAYER_H_

#include <limits>
#include <vector>

#include "millrace/layer.h"

namespace millrace::inline nn {

class DummyDataLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {0, 0, 1, std::numeric_limits<int>::max()}; }
  std::set<std::string> fields() const override { return {"dummy_data_param"}; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    (void)top, (void)propagate_down, (void)bottom;
  }

 private:
  // One per top, set by SetUp.
  std::vector<Shape> shapes_;
  std::vector<caffe::FillerParameter> fillers_;
  bool first_pass_ = true;  // the constant tops are still unwritten
  // Per top, unless the host writes the tops themselves: the values on their way to the device.
  std::vector<Buffer> staged_;
  Event copied_;  // of `staged_`
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DUMMY_DATA_LAYER_H_
