#include "nn/layers/filter_layer.h"

namespace millrace::inline nn {

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

namespace {

const RegisterLayer<FilterLayer> registered("Filter");

}  // namespace
}  // namespace millrace::inline nn
