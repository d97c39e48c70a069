// Repeats the bottom `tiles` times along `axis`, which may be negative and has the size D:
//   top[.., t D + j, ..] = bottom[.., j, ..]    for t in [0, tiles)
//   dE/dbottom[.., j, ..] = sum over t of dE/dtop[.., t D + j, ..]
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/fields.h"
#include "nn/layers/shape/strided_copy.h"
#include "nn/layers/shape/tile_kernels.h"

namespace millrace::inline nn {
namespace {

class TileLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"tile_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  int64_t inner_ = 1;  // values that are repeated together
  StridedCopy copy_;
};

void TileLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::TileParameter& param = param_.tile_param();
  const int axis = CheckedAxis(*bottom[0], param.axis(), "tile_param.axis");
  if (!param.has_tiles()) throw FieldError("tile_param.tiles", "missing");
  CheckedProduct(bottom[0]->count(), param.tiles(), "tile_param.tiles");
  Shape shape = bottom[0]->shape();
  shape[axis] *= param.tiles();
  top[0]->Reshape(shape);
  inner_ = bottom[0]->count(axis);
  copy_ = StridedCopy();
  copy_.AddAxis(bottom[0]->count(0, axis), inner_, param.tiles() * inner_);
  copy_.AddAxis(param.tiles(), 0, inner_);
  copy_.AddAxis(inner_, 1, 1);
}

void TileLayer::Forward(const Blobs& bottom, const Blobs& top) {
  copy_.Run(*context_.queue, bottom[0]->data(), top[0]->data());
}

void TileLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                         const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         TileGradient{param_.tile_param().tiles(), inner_, top[0]->diff(), bottom[0]->diff()});
}

const RegisterLayer<TileLayer> tile_layer("Tile");

}  // namespace
}  // namespace millrace::inline nn
