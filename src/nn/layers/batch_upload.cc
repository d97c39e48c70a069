#include "nn/layers/batch_upload.h"

namespace millrace::inline nn {

BatchUpload::BatchUpload(Queue* net)
    : net_(*net), queue_(net->device().MakeQueue(QueuePriority::kNormal)) {}

Event BatchUpload::Start(const ReadyBatch& batch) {
  buffers_.resize(batch.shapes.size());
  queue_->Wait(taken_);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const size_t bytes = ShapeCount(batch.shapes[i]) * sizeof(float);
    if (buffers_[i].bytes() < bytes) {
      taken_.Synchronize();
      buffers_[i] = Buffer(net_.device().memory(), bytes);
    }
    queue_->CopyToDevice(buffers_[i].get(), batch.data(i), bytes);
  }
  return uploaded_ = queue_->Record();
}

void BatchUpload::Finish(const Blobs& top) {
  net_.Wait(uploaded_);
  for (size_t i = 0; i < top.size(); ++i) {
    net_.Copy(top[i]->data(), buffers_[i].get(), top[i]->count() * sizeof(float));
  }
  taken_ = net_.Record();
}

}  // namespace millrace::inline nn
