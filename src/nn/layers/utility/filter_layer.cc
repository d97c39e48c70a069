// Passes on the items of the batch that a selector names. The last bottom is the selector {N, 1,
// ..}: with i_0 < i_1 < .. the positions of its values that are not 0,
//   top[k][j] = bottom[k][i_j]
//   dE/dbottom[k][i_j] = dE/dtop[k][j], and 0 for the other items
// No gradient flows to the selector. The number of items in the tops is another one in every pass.
#include <limits>

#include "millrace/layer.h"

namespace millrace::inline nn {
namespace {

class FilterLayer : public Layer {
 public:
  using Layer::Layer;

  // One top per bottom but the last.
  Arity arity() const override {
    const int most = std::numeric_limits<int>::max();
    return {2, most, 1, most};
  }
  bool AllowBackward(int bottom) const override { return bottom + 1 < param_.bottom_size(); }
  bool ReshapesInForward() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  // The first call shapes the tops for a whole batch, the most that there may be; later ones read
  // the selector.
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  // Selected items that follow each other.
  struct Run {
    int64_t begin, count;
  };

  bool shaped_ = false;
  std::vector<Run> runs_;  // ascending
};

void FilterLayer::SetUp(const Blobs& bottom, const Blobs& top) {
  if (top.size() + 1 == bottom.size()) return;
  throw FieldError("top", top.size(), " given, expected ", bottom.size() - 1,
                   ", one per bottom but the last");
}

void FilterLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Blob& selector = *bottom.back();
  if (selector.num_axes() < 1 || selector.count(1) != 1) {
    throw FieldError("bottom", "the selector has shape ", ShapeText(selector.shape()),
                     ", expected one value per item");
  }
  const int64_t items = selector.dim(0);
  for (size_t i = 0; i < top.size(); ++i) {
    if (bottom[i]->num_axes() > 0 && bottom[i]->dim(0) == items) continue;
    throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(bottom[i]->shape()),
                     ", expected ", items, " items, as the selector has");
  }
  runs_.clear();
  int64_t selected = 0;
  if (!shaped_) {
    runs_ = {{0, items}};
    selected = items;
    shaped_ = true;
  } else {
    std::vector<float> copy;
    const float* const values = selector.DataOnHost(&copy);
    for (int64_t i = 0; i < items; ++i) {
      if (values[i] == 0) continue;
      if (runs_.empty() || runs_.back().begin + runs_.back().count != i) runs_.push_back({i, 0});
      ++runs_.back().count;
      ++selected;
    }
  }
  for (size_t i = 0; i < top.size(); ++i) {
    Shape shape = bottom[i]->shape();
    shape[0] = selected;
    top[i]->Reshape(shape);
  }
}

void FilterLayer::Forward(const Blobs& bottom, const Blobs& top) {
  for (size_t i = 0; i < top.size(); ++i) {
    const int64_t item = bottom[i]->count(1);
    const float* const from = bottom[i]->data();
    float* to = top[i]->data();
    for (const Run& run : runs_) {
      context_.queue->Copy(to, from + run.begin * item, run.count * item * sizeof(float));
      to += run.count * item;
    }
  }
}

void FilterLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                           const Blobs& bottom) {
  for (size_t i = 0; i < top.size(); ++i) {
    if (!propagate_down[i]) continue;
    const int64_t item = bottom[i]->count(1);
    const float* from = top[i]->diff();
    float* const to = bottom[i]->diff();
    context_.queue->Fill(to, 0, bottom[i]->count() * sizeof(float));
    for (const Run& run : runs_) {
      context_.queue->Copy(to + run.begin * item, from, run.count * item * sizeof(float));
      from += run.count * item;
    }
  }
}

const RegisterLayer<FilterLayer> filter_layer("Filter");

}  // namespace
}  // namespace millrace::inline nn
