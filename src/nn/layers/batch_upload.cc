#include "nn/layers/batch_upload.h"

#include "device/kernel.h"
#include "nn/layers/pixel_kernels.h"

namespace millrace::inline nn {

BatchUpload::BatchUpload(Queue* net, const PixelRule* rule)
    : net_(*net), queue_(net->device().MakeQueue(QueuePriority::kNormal)) {
  if (rule == nullptr) return;
  MemorySpace& memory = net_.device().memory();
  mean_ = Buffer(memory, rule->mean.size() * sizeof(float));
  memory.CopyFromHost(mean_.get(), rule->mean.data(), mean_.bytes());
}

Event BatchUpload::Start(const ReadyBatch& batch) {
  buffers_.resize(batch.shapes.size());
  pixels_ = batch.pixels;
  queue_->Wait(taken_);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const size_t bytes = batch.bytes(i);
    if (buffers_[i].bytes() < bytes) {
      // No work may use the old buffer, also if no net has taken the batch before.
      uploaded_.Synchronize();
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
    if (pixels_ && i == 0) {
      ComputeValues(*pixels_, top[0]);
    } else {
      net_.Copy(top[i]->data(), buffers_[i].get(), top[i]->count() * sizeof(float));
    }
  }
  taken_ = net_.Record();
}

void BatchUpload::ComputeValues(const PixelRule& rule, Blob* top) {
  const auto* const bytes = buffers_[0].get<const uint8_t>();
  Launch(net_, rule.images * rule.size.channels,
         PixelsToValues{rule.size.channels, rule.size.height, rule.size.width,
                        rule.mean_size.height, rule.mean_size.width, rule.scale, bytes,
                        reinterpret_cast<const TransformChoice*>(bytes + rule.choices_at()),
                        mean_.get<const float>(), top->data()});
}

}  // namespace millrace::inline nn
