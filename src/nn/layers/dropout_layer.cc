#include "nn/layers/dropout_layer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace millrace::inline nn {

void DropoutLayer::SetUp(const Blobs&, const Blobs&) {
  const double ratio = param_.dropout_param().dropout_ratio();
  if (!(ratio >= 0 && ratio < 1)) {
    throw FieldError("dropout_param.dropout_ratio", ratio,
                     " given, expected a number from 0 to below 1");
  }
  threshold_ = static_cast<uint32_t>(std::llround(
      std::min(ratio * 0x1p32, static_cast<double>(std::numeric_limits<uint32_t>::max()))));
  scale_ = static_cast<float>(1 / (1 - ratio));
}

void DropoutLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  if (top[0] != bottom[0]) top[0]->ReshapeLike(*bottom[0]);
}

uint64_t DropoutLayer::MaskKey() const {
  const uint64_t pass = context_.pass ? *context_.pass : 0;
  return Rng(context_.seed, {kRngDropout, context_.layer_id, pass}).Next64();
}

}  // namespace millrace::inline nn
