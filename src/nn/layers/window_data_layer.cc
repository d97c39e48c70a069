#include "nn/layers/window_data_layer.h"

#include "data/window/window_transform.h"

namespace millrace::inline nn {

std::unique_ptr<BatchTransform> WindowDataLayer::MakeTransform(const BatchStream& stream) {
  return PerRecord(std::make_unique<WindowTransform>(param_, stream.seed(), stream.stream()),
                   stream.batch_size());
}

namespace {
const RegisterLayer<WindowDataLayer> registered("WindowData");
}  // namespace

}  // namespace millrace::inline nn
