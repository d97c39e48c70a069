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
    parts_ = BlobParts(*bottom[0], top, axis_);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    std::vector<float*> values;
    for (const Blob* blob : top) values.push_back(blob->data());
    parts_.Divide(*context_.queue, bottom[0]->data(), values);
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (!propagate_down[0]) return;
    std::vector<const float*> diffs;
    for (const Blob* blob : top) diffs.push_back(blob->diff());
    parts_.Join(*context_.queue, diffs, bottom[0]->diff());
  }

 private:
  BlobParts parts_;
};

const RegisterGpuLayer<SliceGpu> registered("Slice");

}  // namespace
}  // namespace millrace::inline nn
