// Spatial pyramid pooling (He, Zhang, Ren, Sun 2014) of a 4-axis blob. Level l, from 0 to
// pyramid_height - 1, is a Pooling into B x B bins with B = 2^l, whose geometry along an axis of
// size H is
//   kernel = stride = ceil(H / B),   pad = ceil((kernel B - H) / 2)
// The top {N, C sum of bins} has the values of all levels, each level as {C, rows, columns}, one
// behind the other. With one level the top is that of the Pooling, {N, C, 1, 1}.
#include <memory>

#include "base/rng.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/shape/strided_copy.h"
#include "nn/layers/utility/split_kernels.h"

namespace millrace::inline nn {
namespace {

class SppLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"spp_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  struct Level {
    std::unique_ptr<Layer> pooling;
    std::unique_ptr<Blob> top;       // of the pooling
    std::unique_ptr<BlobPart> part;  // the place of its values in the layer's top
  };

  // Throws FieldError if the bottom is too small for the level.
  caffe::LayerParameter PoolingOf(int level, const Blob& bottom) const;

  std::vector<Level> levels_;
  std::unique_ptr<Blob> bottom_;  // shares the bottom's values; has the gradient of one level
};

constexpr uint32_t kMaxLevels = 16;

struct BinGeometry {
  int64_t kernel, pad;
};
BinGeometry GeometryOf(int64_t size, int64_t bins) {
  const int64_t kernel = (size + bins - 1) / bins;
  return {kernel, (kernel * bins - size + 1) / 2};
}

void SppLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const uint32_t height = param_.spp_param().pyramid_height();
  if (height < 1 || height > kMaxLevels) {
    throw FieldError("spp_param.pyramid_height", height, " given, expected 1 to ", kMaxLevels);
  }
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom", "has ", bottom[0]->num_axes(), " axes, expected 4 (N, C, H, W)");
  }
}

caffe::LayerParameter SppLayer::PoolingOf(int level, const Blob& bottom) const {
  const int64_t bins = int64_t{1} << level;
  const BinGeometry rows = GeometryOf(bottom.dim(2), bins);
  const BinGeometry columns = GeometryOf(bottom.dim(3), bins);
  if (rows.pad >= rows.kernel || columns.pad >= columns.kernel) {
    throw FieldError("spp_param.pyramid_height", param_.spp_param().pyramid_height(),
                     " given, but ", bins, " x ", bins, " bins do not fit into a bottom of shape ",
                     ShapeText(bottom.shape()));
  }
  caffe::LayerParameter layer;
  layer.set_name(StrCat(name(), "_level_", level));
  layer.set_type("Pooling");
  layer.add_bottom(param_.bottom_size() > 0 ? param_.bottom(0) : "");
  layer.set_phase(context_.phase);
  caffe::PoolingParameter& pooling = *layer.mutable_pooling_param();
  pooling.set_kernel_h(static_cast<uint32_t>(rows.kernel));
  pooling.set_kernel_w(static_cast<uint32_t>(columns.kernel));
  pooling.set_stride_h(static_cast<uint32_t>(rows.kernel));
  pooling.set_stride_w(static_cast<uint32_t>(columns.kernel));
  pooling.set_pad_h(static_cast<uint32_t>(rows.pad));
  pooling.set_pad_w(static_cast<uint32_t>(columns.pad));
  switch (param_.spp_param().pool()) {
    case caffe::SPPParameter::MAX:
      pooling.set_pool(caffe::PoolingParameter::MAX);
      break;
    case caffe::SPPParameter::AVE:
      pooling.set_pool(caffe::PoolingParameter::AVE);
      break;
    case caffe::SPPParameter::STOCHASTIC:
      pooling.set_pool(caffe::PoolingParameter::STOCHASTIC);
      break;
  }
  return layer;
}

void SppLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  context_.queue->Synchronize();  // work may use the old levels
  levels_.clear();
  bottom_ = std::make_unique<Blob>(memory());
  bottom_->ShareData(*bottom[0]);
  bottom_->ReshapeLike(*bottom[0]);
  const int height = static_cast<int>(param_.spp_param().pyramid_height());
  int64_t width = 0;
  for (int i = 0; i < height; ++i) {
    LayerContext context = context_;
    context.seed = Rng(context_.seed, {kRngPooling, static_cast<uint64_t>(i)}).Next64();
    context.preferred_layout = Layout::kPlain;
    Level level;
    level.pooling = LayerRegistry::Get().Create(PoolingOf(i, *bottom[0]), context);
    level.top = std::make_unique<Blob>(memory());
    level.pooling->SetUp({bottom_.get()}, {level.top.get()});
    level.pooling->Reshape({bottom_.get()}, {level.top.get()});
    width += level.top->count(1);
    levels_.push_back(std::move(level));
  }
  if (height == 1) {
    top[0]->Reshape(levels_[0].top->shape());
  } else {
    top[0]->Reshape({bottom[0]->dim(0), width});
  }
  int64_t offset = 0;
  for (Level& level : levels_) {
    // A level as the columns [offset, offset + values of an image) of the top.
    const Blob whole(Shape{bottom[0]->dim(0), width}, memory());
    const Blob part(Shape{bottom[0]->dim(0), level.top->count(1)}, memory());
    level.part = std::make_unique<BlobPart>(whole, part, 1, offset);
    offset += part.dim(1);
  }
}

void SppLayer::Forward(const Blobs& bottom, const Blobs& top) {
  if (bottom_->data() != bottom[0]->data()) bottom_->ShareData(*bottom[0]);
  for (Level& level : levels_) {
    level.pooling->Forward({bottom_.get()}, {level.top.get()});
    level.part->Insert(*context_.queue, level.top->data(), top[0]->data());
  }
}

void SppLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                        const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Queue& queue = *context_.queue;
  const int64_t count = bottom[0]->count();
  float* const sum = bottom[0]->diff();
  for (size_t i = 0; i < levels_.size(); ++i) {
    const Level& level = levels_[i];
    level.part->Extract(queue, top[0]->diff(), level.top->diff());
    level.pooling->Backward({level.top.get()}, {true}, {bottom_.get()});
    if (i == 0) {
      queue.Copy(sum, bottom_->diff(), count * sizeof(float));
    } else {
      Launch(queue, count, SplitAdd{sum, bottom_->diff(), sum});
    }
  }
}

const RegisterLayer<SppLayer> spp_layer("SPP");

}  // namespace
}  // namespace millrace::inline nn
