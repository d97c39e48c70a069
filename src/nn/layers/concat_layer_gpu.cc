#include "nn/gpu/gpu_layer.h"
#include "nn/layers/blob_parts.h"
#include "nn/layers/concat_layer.h"

namespace millrace::inline nn {
namespace {

class ConcatGpu : public ConcatLayer {
 public:
  using ConcatLayer::ConcatLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    ConcatLayer::Reshape(bottom, top);
    parts_.clear();
    int64_t offset = 0;
    for (const Blob* blob : bottom) {
      parts_.emplace_back(*top[0], *blob, axis_, offset);
      offset += blob->dim(axis_);
    }
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      parts_[i].Insert(*context_.queue, bottom[i]->data(), top[0]->data());
    }
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (propagate_down[i]) parts_[i].Extract(*context_.queue, top[0]->diff(), bottom[i]->diff());
    }
  }

 private:
  std::vector<BlobPart> parts_;
};

const RegisterGpuLayer<ConcatGpu> registered("Concat");

}  // namespace
}  // namespace millrace::inline nn
