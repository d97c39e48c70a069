#include "nn/layers/window_data_layer.h"

#include "data/window/window_transform.h"

namespace millrace {

std::unique_ptr<RecordTransform> WindowDataLayer::MakeTransform(const BatchStream& stream) {
  return std::make_unique<WindowTransform>(param_, stream.seed(), stream.stream());
}

namespace {
const RegisterLayer<WindowDataLayer> registered("WindowData");
}  // namespace

}  // namespace millrace
