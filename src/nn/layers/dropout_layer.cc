#include "nn/layers/dropout_layer.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::inline nn {

void DropoutLayer::SetUp(const Blobs&, const Blobs&) {
  const double ratio = param_.dropout_param().dropout_ratio();
  if (!(ratio >= 0 && ratio <= 1)) {
    throw FieldError("dropout_param.dropout_ratio", ratio, " given, expected a number from 0 to 1");
  }
  if (ratio == 1 && drops()) {
    LOG(WARNING) << "layer '" << name() << "': dropout_ratio 1 sets every value to 0";
  }
  threshold_ = static_cast<uint32_t>(std::llround(
      std::min(ratio * 0x1p32, static_cast<double>(std::numeric_limits<uint32_t>::max()))));
  const double kept = 1 - ratio;
  if (param_.dropout_param().scale_train()) {
    scale_ = drops() && kept > 0 ? static_cast<float>(1 / kept) : static_cast<float>(!drops());
  } else {
    scale_ = drops() && kept > 0 ? 1.0f : static_cast<float>(kept);
  }
}

void DropoutLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  if (top[0] != bottom[0]) top[0]->ReshapeLike(*bottom[0]);
}

}  // namespace millrace::inline nn
