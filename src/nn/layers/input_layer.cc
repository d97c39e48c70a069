#include "nn/layers/input_layer.h"

#include "nn/layers/shape_field.h"

namespace millrace::inline nn {

void InputLayer::SetUp(const Blobs&, const Blobs& top) {
  const caffe::InputParameter& input = param_.input_param();
  const int given = input.shape_size();
  const int tops = static_cast<int>(top.size());
  if (given == 0) return;
  if (given != 1 && given != tops) {
    throw FieldError("input_param.shape", given, " given, expected 1",
                     tops == 1 ? "" : StrCat(" or ", tops, " (one per top)"));
  }
  for (int i = 0; i < tops; ++i) {
    const int index = given == 1 ? 0 : i;
    // As in Caffe, an input may have no items.
    top[i]->Reshape(CheckedShape(input.shape(index), StrCat("input_param.shape[", index, "]"), 0));
  }
}

namespace {
const RegisterLayer<InputLayer> registered("Input");
}

}  // namespace millrace::inline nn
