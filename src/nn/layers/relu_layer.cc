#include "nn/layers/relu_layer.h"

namespace millrace::inline nn {

void ReluLayer::SetUp(const Blobs& bottom, const Blobs& top) {
  if (bottom[0] == top[0] && slope() < 0) {
    // The output does not determine the sign of the input.
    throw FieldError("relu_param.negative_slope", slope(),
                     " given, but in place it must not be negative");
  }
}

}  // namespace millrace::inline nn
