#include "nn/layers/loss/labels.h"

#include "base/error.h"

namespace millrace::inline nn {

void Labels::CheckShape(const Blob& labels, const AxisView& view) const {
  const int64_t expected = view.outer * view.inner;
  if (labels.count() != expected) {
    throw Error("the labels have shape ", ShapeText(labels.shape()), ", expected ", expected,
                " values: one for each prediction over ", view.classes, " classes");
  }
}

void Labels::ThrowNotAClass(float value, const AxisView& view, int64_t outer, int64_t inner) const {
  throw Error("layer '", layer_, "': label ", value, " at position ", outer, " of the batch",
              view.inner > 1 ? StrCat(" (place ", inner, " of ", view.inner, ")") : "",
              " is not one of the ", view.classes, " classes 0 to ", view.classes - 1);
}

}  // namespace millrace::inline nn
