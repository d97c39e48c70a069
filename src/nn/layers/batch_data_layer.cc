#include "nn/layers/batch_data_layer.h"

#include <utility>

#include "data/data_service.h"
#include "data/stream_options.h"

namespace millrace::inline nn {

BatchDataLayer::~BatchDataLayer() = default;

void BatchDataLayer::SetUp(const Blobs&, const Blobs&) {
  if (!context_.data) {
    throw FieldError("type", "a ", type(), " layer reads from files, and this net reads no data");
  }
  stream_ = context_.data->Open(context_.data_scope, param_);
  auto transform = MakeTransform(*stream_);
  first_shapes_ = transform->first_shapes();
  varies_ = transform->varies();
  prefetcher_ = std::make_unique<Prefetcher>(stream_, std::move(transform),
                                             static_cast<int>(param_.data_param().prefetch()),
                                             context_.device->staging(), context_.data_consumer);
}

int64_t BatchDataLayer::batch_size() const { return BatchSizeOf(param_); }

void BatchDataLayer::Reshape(const Blobs&, const Blobs& top) {
  if (!shaped_ || !varies_) {
    for (size_t i = 0; i < top.size(); ++i) top[i]->Reshape(first_shapes_[i]);
    shaped_ = true;
  } else if (!taken_) {
    Take(top);
    taken_ = true;
  }
}

void BatchDataLayer::Take(const Blobs& top) {
  if (mark_in_forward_) MarkPast();
  if (current_) {
    copied_.Synchronize();  // the prefetcher will overwrite the batch
    prefetcher_->Recycle(std::exchange(current_, nullptr));
  }
  current_ = prefetcher_->Next();
  unmarked_.push_back(current_->number);
  if (!varies_) return;
  for (size_t i = 0; i < top.size(); ++i) top[i]->Reshape(current_->shapes[i]);
}

void BatchDataLayer::Forward(const Blobs&, const Blobs& top) {
  if (!taken_) Take(top);
  taken_ = false;
  const bool on_host = memory().on_host();
  for (size_t i = 0; i < top.size(); ++i) {
    const Buffer& values = current_->tops[i];
    if (on_host) {
      top[i]->BindData(values.get<float>());
    } else {
      context_.queue->CopyToDevice(top[i]->data(), values.get(), top[i]->count() * sizeof(float));
    }
  }
  if (!on_host) copied_ = context_.queue->Record();
}

void BatchDataLayer::EndIteration() {
  mark_in_forward_ = false;
  MarkPast();
}

void BatchDataLayer::MarkPast() {
  for (uint64_t number : unmarked_) stream_->MarkConsumed(number);
  unmarked_.clear();
}

}  // namespace millrace::inline nn
