// Interp and Upsample.
#include "contrib/segmentation/upsample_kernels.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/fields.h"
#include "nn/layers/shape/row_gather.h"

namespace millrace::inline contrib {
namespace {

// Bilinear interpolation of the planes of a 4-axis blob, so that the corners of bottom and top
// coincide. Along an axis with `in` values, of which pad_beg and pad_end (not positive) are cut
// off, value j of the top, of `out`, lies at r = j (in - 1) / (out - 1) of the bottom:
//   top[j] = (1 - (r - k)) bottom[k] + (r - k) bottom[k + 1]    with k = r, rounded down
// and so on for both axes. The size of the top, of what the cut leaves:
//   shrink_factor s    (in - 1) / s + 1
//   zoom_factor z      in + (in - 1) (z - 1)
//   both               first the one, then the other
//   height and width   these; beside them, one factor alone counts, and both do not
// A layer of the DeepLab fork of Caffe (Chen, Papandreou, Kokkinos, Murphy, Yuille 2015).
class InterpLayer : public Layer {
 public:
  using Layer::Layer;

  std::set<std::string> fields() const override { return {"interp_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  bool ByFactor() const;
  InterpAxis AxisOf(int64_t size, int64_t wanted) const;

  InterpAxis rows_{}, columns_{};
};

bool InterpLayer::ByFactor() const {
  const caffe::InterpParameter& param = param_.interp_param();
  const bool shrinks = param.has_shrink_factor(), zooms = param.has_zoom_factor();
  return shrinks != zooms || (shrinks && !param.has_height() && !param.has_width());
}

InterpAxis InterpLayer::AxisOf(int64_t size, int64_t wanted) const {
  const caffe::InterpParameter& param = param_.interp_param();
  const int64_t part = size + param.pad_beg() + param.pad_end();
  if (part < 1) {
    throw FieldError("interp_param.pad_beg", param.pad_beg(), " and pad_end ", param.pad_end(),
                     " given, which leaves nothing of ", size, " values");
  }
  int64_t top = wanted;
  if (ByFactor()) {
    top = (part - 1) / param.shrink_factor() + 1;
    top += (top - 1) * (param.zoom_factor() - 1);
  }
  const float step = top > 1 ? static_cast<float>(part - 1) / static_cast<float>(top - 1) : 0.0f;
  return {size, -param.pad_beg(), part, top, step};
}

void InterpLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::InterpParameter& param = param_.interp_param();
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom", "has ", bottom[0]->num_axes(), " axes, expected 4 (N, C, H, W)");
  }
  for (const auto& [name, value] :
       {std::pair("pad_beg", param.pad_beg()), {"pad_end", param.pad_end()}}) {
    if (value <= 0) continue;
    throw FieldError(StrCat("interp_param.", name), value,
                     " given, expected 0 or a negative number");
  }
  for (const auto& [name, value] :
       {std::pair("shrink_factor", param.shrink_factor()), {"zoom_factor", param.zoom_factor()}}) {
    if (value >= 1) continue;
    throw FieldError(StrCat("interp_param.", name), value, " given, expected at least 1");
  }
  if (!ByFactor() && (param.height() < 1 || param.width() < 1)) {
    throw FieldError("interp_param",
                     "give height and width, or shrink_factor or zoom_factor or both");
  }
  rows_ = AxisOf(bottom[0]->dim(2), param.height());
  columns_ = AxisOf(bottom[0]->dim(3), param.width());
  Shape shape = bottom[0]->shape();
  shape[2] = rows_.top;
  shape[3] = columns_.top;
  int64_t count = 1;
  for (const int64_t dim : shape) count = CheckedProduct(count, dim, "interp_param", 0);
  top[0]->Reshape(shape);
}

void InterpLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Launch(*context_.queue, top[0]->count(),
         InterpForward{rows_, columns_, bottom[0]->data(), top[0]->data()});
}

void InterpLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                           const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         InterpGradient{rows_, columns_, top[0]->diff(), bottom[0]->diff()});
}

const RegisterLayer<InterpLayer> interp("Interp");

// Enlarges the planes of a 4-axis blob. Two layers of forks of Caffe have this name:
//
// With one bottom, as in forks for YOLO: every value becomes a block of scale_h x scale_w values.
//   top[n, c, y, x] = bottom[n, c, y / scale_h, x / scale_w]    (rounded down)
//   dE/dbottom = the sum of dE/dtop over the block
//
// With two bottoms, as in the fork of SegNet (Badrinarayanan, Kendall, Cipolla 2015): the second
// bottom has the shape of the first and gives the place of each value in its plane of the top,
// row * width + column, as the second top of a Pooling does. The other places of the top are 0.
//   top[n, c, place] = bottom[0][n, c, i]   where place = bottom[1][n, c, i]
//   dE/dbottom[0][n, c, i] = dE/dtop[n, c, place]
// The top is {N, C, upsample_h, upsample_w}, by default height * scale_h - 1 if pad_out_h is set,
// height * scale_h otherwise, and so for the width. A place out of range is an error. If several
// values have the same place, which a pooling with windows that do not overlap excludes, one of
// them is taken. No gradient flows to the second bottom.
//
// `scale` is used where scale_h and scale_w are not set.
class UpsampleLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"upsample_param"}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  void CheckForward(const Blobs& bottom) override;

 private:
  UpsampleShape shape_{};
  int64_t top_plane_ = 0;  // values of a plane of the top
  IndexCheck check_;
};

constexpr int64_t kMaxPlaces = 1 << 24;  // that a float represents exactly

void UpsampleLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::UpsampleParameter& param = param_.upsample_param();
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom", "has ", bottom[0]->num_axes(), " axes, expected 4 (N, C, H, W)");
  }
  shape_.scale_h = param.has_scale_h() ? param.scale_h() : param.scale();
  shape_.scale_w = param.has_scale_w() ? param.scale_w() : param.scale();
  if (shape_.scale_h < 1 || shape_.scale_w < 1) {
    throw FieldError("upsample_param.scale", "0 given, expected at least 1");
  }
  const bool sized =
      param.has_upsample_h() || param.has_upsample_w() || param.pad_out_h() || param.pad_out_w();
  if (bottom.size() == 1 && sized) {
    throw FieldError("upsample_param",
                     "upsample_h, upsample_w, pad_out_h and pad_out_w need a "
                     "second bottom with the places of the values");
  }
  if (bottom.size() > 1) check_.Reserve(*context_.queue);
}

void UpsampleLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::UpsampleParameter& param = param_.upsample_param();
  shape_.height = bottom[0]->dim(2);
  shape_.width = bottom[0]->dim(3);
  Shape shape = bottom[0]->shape();
  shape[2] = param.has_upsample_h() ? param.upsample_h()
                                    : shape_.height * shape_.scale_h - param.pad_out_h();
  shape[3] = param.has_upsample_w() ? param.upsample_w()
                                    : shape_.width * shape_.scale_w - param.pad_out_w();
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    count = CheckedProduct(count, shape[i], "upsample_param", i < 2 ? 0 : 1);
  }
  top[0]->Reshape(shape);
  top_plane_ = shape[2] * shape[3];
  if (bottom.size() == 1) return;
  if (bottom[1]->shape() != bottom[0]->shape()) {
    throw FieldError("bottom[1]", "has shape ", ShapeText(bottom[1]->shape()),
                     ", expected that of bottom[0], ", ShapeText(bottom[0]->shape()));
  }
  if (top_plane_ > kMaxPlaces) {
    throw FieldError("upsample_param", "a plane of the top has ", top_plane_,
                     " values, expected at most ", kMaxPlaces);
  }
}

void UpsampleLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  float* const to = top[0]->data();
  if (bottom.size() == 1) {
    return Launch(queue, top[0]->count(), UpsampleNearest{shape_, bottom[0]->data(), to});
  }
  const int64_t count = bottom[0]->count();
  const float* const mask = bottom[1]->data();
  queue.Fill(to, 0, top[0]->count() * sizeof(float));
  Launch(queue, count,
         UpsampleByMask{{shape_.height * shape_.width, top_plane_, mask}, bottom[0]->data(), to});
  check_.Enqueue(queue, top_plane_, count, mask);
}

void UpsampleLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                             const Blobs& bottom) {
  if (!propagate_down[0]) return;
  const int64_t count = bottom[0]->count();
  const float* const from = top[0]->diff();
  float* const to = bottom[0]->diff();
  if (bottom.size() == 1) {
    Launch(*context_.queue, count, UpsampleNearestGradient{shape_, from, to});
  } else {
    Launch(*context_.queue, count,
           UpsampleByMaskGradient{
               {shape_.height * shape_.width, top_plane_, bottom[1]->data()}, from, to});
  }
}

void UpsampleLayer::CheckForward(const Blobs& bottom) {
  if (bottom.size() > 1) check_.Check(name(), top_plane_, *bottom[1]);
}

const RegisterLayer<UpsampleLayer> upsample("Upsample");

}  // namespace
}  // namespace millrace::inline contrib
