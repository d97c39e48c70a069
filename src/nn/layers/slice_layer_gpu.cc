#include "nn/gpu/gpu_layer.h"
#include "nn/layers/blob_parts.h"
#include "nn/layers/slice_layer.h"

namespace millrace::inline nn {
namespace {

class SliceGpu : public SliceLayer {
 public:
  using SliceLayer::SliceLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    SliceLayer::Reshape(bottom, top);
    parts_.clear();
    int64_t offset = 0;
    for (const Blob* blob : top) {
      parts_.emplace_back(*bottom[0], *blob, axis_, offset);
      offset += blob->dim(axis_);
    }
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    for (size_t i = 0; i < top.size(); ++i) {
      parts_[i].Extract(*context_.queue, bottom[0]->data(), top[i]->data());
    }
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    for (size_t i = 0; i < top.size(); ++i) {
      parts_[i].Insert(*context_.queue, top[i]->diff(), bottom[0]->diff());
    }
  }

 private:
  std::vector<BlobPart> parts_;
};

const RegisterGpuLayer<SliceGpu> registered("Slice");

}  // namespace
}  // namespace millrace::inline nn
