// Selects items of the batch, in any order and any number of times:
//   top[i] = bottom[0][bottom[1][i]]
//   dE/dbottom[0][n] = sum over i with bottom[1][i] = n of dE/dtop[i]
// The second bottom has one axis. Its values are whole numbers from 0 to the size of the first
// bottom's batch - 1; another one is an error. No gradient flows to it.
#include "millrace/layer.h"
#include "nn/layers/shape/row_gather.h"

namespace millrace::inline nn {
namespace {

class BatchReindexLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }

  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  void CheckForward(const Blobs& bottom) override { gather_.Check(name(), *bottom[1]); }

 private:
  RowGather gather_;
};

void BatchReindexLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  if (bottom[0]->num_axes() < 1) throw FieldError("bottom[0]", "has no axes, expected at least 1");
  if (bottom[1]->num_axes() != 1) {
    throw FieldError("bottom[1]", "has ", bottom[1]->num_axes(), " axes, expected 1");
  }
  Shape shape = bottom[0]->shape();
  shape[0] = bottom[1]->dim(0);
  top[0]->Reshape(shape);
  gather_.Reserve(*context_.queue, bottom[0]->dim(0), bottom[0]->count(1), shape[0]);
}

void BatchReindexLayer::Forward(const Blobs& bottom, const Blobs& top) {
  gather_.Forward(bottom[1]->data(), bottom[0]->data(), nullptr, top[0]->data());
}

void BatchReindexLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                 const Blobs& bottom) {
  if (!propagate_down[0]) return;
  float* const diff = bottom[0]->diff();
  context_.queue->Fill(diff, 0, bottom[0]->count() * sizeof(float));
  gather_.AddBackward(bottom[1]->data(), top[0]->diff(), diff);
}

const RegisterLayer<BatchReindexLayer> batch_reindex_layer("BatchReindex");

}  // namespace
}  // namespace millrace::inline nn
