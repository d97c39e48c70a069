#include "nn/layers/data/batch_data_layer.h"

#include <cstddef>

#include "device/kernel.h"
#include "nn/layers/data/pixel_kernels.h"

namespace millrace::inline nn {

namespace {

// The queue on which all batches of a net travel. It ends with the net's.
struct UploadQueue {
  explicit UploadQueue(Device& device) : queue(device.MakeQueue(QueuePriority::kNormal)) {}
  const std::unique_ptr<Queue> queue;
};

Queue& UploadQueueOf(Queue* net) {
  return *net->Attached<UploadQueue>([net] { return std::make_unique<UploadQueue>(net->device()); })
              .queue;
}

}  // namespace

BatchUpload::BatchUpload(Queue* net, const PixelRule* rule)
    : net_(*net), queue_(UploadQueueOf(net)) {
  if (rule == nullptr) return;
  MemorySpace& memory = net_.device().memory();
  mean_ = Buffer(memory, rule->mean.size() * sizeof(float));
  memory.CopyFromHost(mean_.get(), rule->mean.data(), mean_.bytes());
}

BatchUpload::~BatchUpload() {
  try {
    uploaded_.Synchronize();
    taken_.Synchronize();
  } catch (const Error&) {
    // The device has failed, as its users have noticed, and accesses no memory any more.
  }
}

Event BatchUpload::Start(const ReadyBatch& batch) {
  const size_t bytes = batch.bytes();
  if (arrived_.bytes() < bytes) {
    // No work may use the old buffer, also if no net has taken the batch before.
    uploaded_.Synchronize();
    taken_.Synchronize();
    arrived_.Reset();
    arrived_ = Buffer(net_.device().memory(), bytes);
  }
  queue_.Wait(taken_);
  queue_.CopyToDevice(arrived_.get(), batch.memory.get(), bytes);
  return uploaded_ = queue_.Record();
}

void BatchUpload::Finish(const ReadyBatch& batch, const Blobs& top) {
  net_.Wait(uploaded_);
  for (size_t i = 0; i < top.size(); ++i) {
    if (batch.pixels && i == 0) {
      ComputeValues(*batch.pixels, top[0]);
    } else {
      net_.Copy(top[i]->data(), arrived_.get<std::byte>() + batch.offset(i),
                top[i]->count() * sizeof(float));
    }
  }
  taken_ = net_.Record();
}

void BatchUpload::ComputeValues(const PixelRule& rule, Blob* top) {
  const auto* const bytes = arrived_.get<const uint8_t>();
  Launch(net_, rule.images * rule.size.channels,
         PixelsToValues{rule.size.channels, rule.size.height, rule.size.width,
                        rule.mean_size.height, rule.mean_size.width, rule.scale, bytes,
                        reinterpret_cast<const TransformChoice*>(bytes + rule.choices_at()),
                        mean_.get<const float>(), top->data()});
}

}  // namespace millrace::inline nn
