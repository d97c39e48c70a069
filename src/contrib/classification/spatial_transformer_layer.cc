// Spatial transformer (Jaderberg, Simonyan, Zisserman, Kavukcuoglu 2015), as in daerduoCarey's and
// christopher5106's forks of Caffe: samples of each image at places that an affine matrix gives.
//
// Bottoms: values U {N, C, H, W}, and the matrices {N, 6 - F}: theta_1_1, theta_1_2, theta_1_3,
// theta_2_1, theta_2_2, theta_2_3 without the F numbers that st_param fixes. If all are fixed, the
// second bottom is optional and is not read. Top: {N, C, output_H, output_W}, by default H and W.
// Rows come first. Row s and column t of the top have coordinates from -1 (inclusive) to 1
// (exclusive),
//   g = 2 s / output_H - 1,   h = 2 t / output_W - 1
// and lie in the bottom at
//   row     H (theta_1_1 g + theta_1_2 h + theta_1_3 + 1) / 2
//   column  W (theta_2_1 g + theta_2_2 h + theta_2_3 + 1) / 2
// The top is the bilinear interpolation of the 4 pixels around; those outside of the image are 0.
// On a pixel, where the derivative has a jump, the gradient of the matrix is that towards larger
// rows and columns (in the forks it is 0 there). With to_compute_dU: false, no gradient flows to U.
#include <cmath>

#include "contrib/classification/spatial_transformer_kernels.h"
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/layers/fields.h"

namespace millrace::inline contrib {
namespace {

class SpatialTransformerLayer : public Layer {
 public:
  SpatialTransformerLayer(const caffe::LayerParameter& param, const LayerContext& context);

  Arity arity() const override { return {given() > 0 ? 2 : 1, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"st_param"}; }
  bool AllowBackward(int bottom) const override {
    return bottom == 0 ? param_.st_param().to_compute_du() : given() > 0;
  }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  int64_t given() const { return shape_.matrix.given; }
  TransformerShape ShapeWith(const Blobs& bottom) const;

  TransformerShape shape_{};  // without the address of theta
};

SpatialTransformerLayer::SpatialTransformerLayer(const caffe::LayerParameter& param,
                                                 const LayerContext& context)
    : Layer(param, context) {
  const caffe::SpatialTransformerParameter& st = param_.st_param();
  const bool is_fixed[] = {st.has_theta_1_1(), st.has_theta_1_2(), st.has_theta_1_3(),
                           st.has_theta_2_1(), st.has_theta_2_2(), st.has_theta_2_3()};
  const double fixed[] = {st.theta_1_1(), st.theta_1_2(), st.theta_1_3(),
                          st.theta_2_1(), st.theta_2_2(), st.theta_2_3()};
  for (int i = 0; i < 6; ++i) {
    shape_.matrix.place[i] = is_fixed[i] ? -1 : static_cast<int32_t>(shape_.matrix.given++);
    shape_.matrix.fixed[i] = static_cast<float>(fixed[i]);
  }
}

void SpatialTransformerLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::SpatialTransformerParameter& param = param_.st_param();
  if (param.transform_type() != "affine") {
    throw FieldError("st_param.transform_type", "'", param.transform_type(),
                     "' given, expected 'affine'");
  }
  if (param.sampler_type() != "bilinear") {
    throw FieldError("st_param.sampler_type", "'", param.sampler_type(),
                     "' given, expected 'bilinear'");
  }
  for (int i = 0; i < 6; ++i) {
    if (std::isfinite(shape_.matrix.fixed[i])) continue;
    throw FieldError(StrCat("st_param.theta_", i / 3 + 1, "_", i % 3 + 1), shape_.matrix.fixed[i],
                     " given, expected a finite number");
  }
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom[0]", "has ", bottom[0]->num_axes(), " axes, expected 4 (N, C, H, W)");
  }
}

void SpatialTransformerLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::SpatialTransformerParameter& param = param_.st_param();
  const Shape& from = bottom[0]->shape();
  shape_.images = from[0];
  shape_.channels = from[1];
  shape_.height = from[2];
  shape_.width = from[3];
  shape_.top_height = param.has_output_h() ? param.output_h() : shape_.height;
  shape_.top_width = param.has_output_w() ? param.output_w() : shape_.width;
  int64_t count = CheckedProduct(from[0] * from[1], shape_.top_height, "st_param.output_H");
  CheckedProduct(count, shape_.top_width, "st_param.output_W");
  if (given() > 0 && (bottom[1]->num_axes() < 1 || bottom[1]->dim(0) != from[0] ||
                      bottom[1]->count(1) != given())) {
    throw FieldError("bottom[1]", "has shape ", ShapeText(bottom[1]->shape()), ", expected ",
                     from[0], " ", given(), ": the numbers of each image's matrix",
                     given() < 6 ? " that st_param does not fix" : "");
  }
  top[0]->Reshape({from[0], from[1], shape_.top_height, shape_.top_width});
}

TransformerShape SpatialTransformerLayer::ShapeWith(const Blobs& bottom) const {
  TransformerShape shape = shape_;
  if (given() > 0) shape.matrix.theta = bottom[1]->data();
  return shape;
}

void SpatialTransformerLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Launch(*context_.queue, top[0]->count(),
         TransformerForward{ShapeWith(bottom), bottom[0]->data(), top[0]->data()});
}

void SpatialTransformerLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                       const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const TransformerShape shape = ShapeWith(bottom);
  const float* const top_diff = top[0]->diff();
  if (given() > 0 && propagate_down[1]) {
    Launch(queue, bottom[1]->count(),
           TransformerOfTheta{shape, bottom[0]->data(), top_diff, bottom[1]->diff()});
  }
  if (!propagate_down[0]) return;
  float* const diff = bottom[0]->diff();
  if (queue.device().type() == DeviceType::kCpu) {
    queue.Fill(diff, 0, bottom[0]->count() * sizeof(float));
    RunOnHost(shape.images * shape.channels, TransformerScatter{shape, top_diff, diff});
  } else {
    Launch(queue, bottom[0]->count(), TransformerGather{shape, top_diff, diff});
  }
}

const RegisterLayer<SpatialTransformerLayer> spatial_transformer_layer("SpatialTransformer");

}  // namespace
}  // namespace millrace::inline contrib
