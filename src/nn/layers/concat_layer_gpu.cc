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
    parts_ = BlobParts(*top[0], bottom, axis_);
  }
  void Forward(const Blobs& bottom, const Blobs& top) override {
    std::vector<const float*> values;
    for (const Blob* blob : bottom) values.push_back(blob->data());
    parts_.Join(*context_.queue, values, top[0]->data());
  }
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    std::vector<float*> diffs;
    for (size_t i = 0; i < bottom.size(); ++i) {
      diffs.push_back(propagate_down[i] ? bottom[i]->diff() : nullptr);
    }
    parts_.Divide(*context_.queue, top[0]->diff(), diffs);
  }

 private:
  BlobParts parts_;
};

const RegisterGpuLayer<ConcatGpu> registered("Concat");

}  // namespace
}  // namespace millrace::inline nn
