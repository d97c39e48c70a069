#include "nn/layers/data/batch_data_layer.h"

#include <utility>

#include "data/data_service.h"
#include "data/stream_options.h"
#include "nn/gpu/gpu_settings.h"

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
  const bool uploads = !varies_ && !memory().on_host();
  const bool transforms = uploads && GpuSettingsOf(*context_.queue).transform_images;
  const PixelRule* const pixels = transforms ? transform->pixel_rule() : nullptr;
  if (uploads) upload_ = std::make_unique<BatchUpload>(context_.queue, pixels);
  prefetcher_ = std::make_unique<Prefetcher>(
      stream_, std::move(transform), static_cast<int>(param_.data_param().prefetch()),
      context_.device->staging(), context_.data_consumer, uploads ? 2 : 1, pixels != nullptr);
}

int64_t BatchDataLayer::batch_size() const {
  return stream_ ? static_cast<int64_t>(stream_->batch_size()) : BatchSizeOf(param_);
}

void BatchDataLayer::Reshape(const Blobs&, const Blobs& top) {
  if (!shaped_ || !varies_) {
    for (size_t i = 0; i < top.size(); ++i) top[i]->Reshape(first_shapes_[i]);
    shaped_ = true;
  } else if (!taken_) {
    Take(top);
    taken_ = true;
  }
}

void BatchDataLayer::Recycle(ReadyBatch** batch) {
  if (*batch == nullptr) return;
  copied_.Synchronize();  // the prefetcher will overwrite the batch
  prefetcher_->Recycle(std::exchange(*batch, nullptr));
}

void BatchDataLayer::Take(const Blobs& top) {
  if (mark_in_forward_) MarkPast();
  Recycle(&current_);
  current_ = std::exchange(ahead_, nullptr);
  copied_ = ahead_copied_;
  started_ = current_ != nullptr;
  if (started_ && !prefetcher_->IsPresent(*current_)) {
    Recycle(&current_);
    started_ = false;
  }
  if (current_ == nullptr) current_ = prefetcher_->Next();
  unmarked_.push_back(current_->number);
  if (!varies_) return;
  for (size_t i = 0; i < top.size(); ++i) top[i]->Reshape(current_->shapes[i]);
}

void BatchDataLayer::Forward(const Blobs&, const Blobs& top) {
  if (!taken_) Take(top);
  taken_ = false;
  if (!memory().on_host()) return CopyToTops(top);
  for (size_t i = 0; i < top.size(); ++i) top[i]->BindData(current_->data(i));
}

void BatchDataLayer::CopyToTops(const Blobs& top) {
  if (!upload_) {
    for (size_t i = 0; i < top.size(); ++i) {
      context_.queue->CopyToDevice(top[i]->data(), current_->data(i),
                                   top[i]->count() * sizeof(float));
    }
    copied_ = context_.queue->Record();
    return;
  }
  if (!started_) copied_ = upload_->Start(*current_);
  upload_->Finish(*current_, top);
  // The next batch travels while the net computes on this one.
  ahead_ = prefetcher_->TryNext();
  if (ahead_ != nullptr) ahead_copied_ = upload_->Start(*ahead_);
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
