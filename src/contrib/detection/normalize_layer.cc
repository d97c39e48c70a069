// Divides by the L2 norm and multiplies by a learned scale (ParseNet, Liu and others 2015; a layer
// of the SSD fork of Caffe). With x the bottom {N, C, ..} and the norm n over the channels of each
// position, or with across_spatial over all values of each image,
//   n = sqrt(sum of x^2 + eps)      top = scale * x / n
//   dE/dx = (g - x * sum of (g * x) / n^2) / n      with g = scale * dE/dtop
//   dE/dscale = sum of dE/dtop * x / n
// The scale is one number with channel_shared (shape: no axes), else one per channel {C}. SSD
// leaves the scales out of the inner sum, which is the same where they are equal.
#include "device/kernel.h"
#include "millrace/layer.h"
#include "nn/filler.h"
#include "nn/layers/norm/l2_norm_kernels.h"

namespace millrace::inline contrib {
namespace {

class NormalizeLayer : public Layer {
 public:
  NormalizeLayer(const caffe::LayerParameter& param, const LayerContext& context);

  std::set<std::string> fields() const override { return {"norm_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  bool by_image() const { return param_.norm_param().across_spatial(); }
  bool shared() const { return param_.norm_param().channel_shared(); }
  L2NormView View() const;
  void ScaleBackward(const Blobs& top, const Blobs& bottom);

  int64_t images_ = 0, channels_ = 0, area_ = 0;
  Blob inverse_, product_;  // by position of an image, or by image
  Blob of_channels_;        // derivatives by the scale, if it is shared
};

NormalizeLayer::NormalizeLayer(const caffe::LayerParameter& param, const LayerContext& context)
    : Layer(param, context), inverse_(memory()), product_(memory()), of_channels_(memory()) {}

void NormalizeLayer::SetUp(const Blobs& bottom, const Blobs&) {
  if (bottom[0]->num_axes() < 2) {
    throw FieldError("bottom", "has ", bottom[0]->num_axes(), " axes, expected at least 2");
  }
  const caffe::NormalizeParameter& param = param_.norm_param();
  channels_ = bottom[0]->dim(1);
  const Shape shape = shared() ? Shape{} : Shape{channels_};
  caffe::FillerParameter filler;
  filler.set_value(1);
  if (param.has_scale_filler()) filler = param.scale_filler();
  CheckFiller(filler, shape, "norm_param.scale_filler");
  AddParam(shape, filler);
}

void NormalizeLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  if (bottom[0]->num_axes() < 2 || bottom[0]->dim(1) != channels_) {
    throw FieldError("bottom", "has shape ", ShapeText(bottom[0]->shape()), ", expected ",
                     channels_, " channels");
  }
  top[0]->ReshapeLike(*bottom[0]);
  images_ = bottom[0]->dim(0);
  area_ = bottom[0]->count(2);
  for (Blob* each : {&inverse_, &product_}) each->Reshape({images_, by_image() ? 1 : area_});
  if (shared()) of_channels_.Reshape({channels_});
}

L2NormView NormalizeLayer::View() const {
  return {channels_, area_, by_image(), shared(), inverse_.data(), params_[0].blob->data()};
}

void NormalizeLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  const float eps = param_.norm_param().eps();
  const float* const x = bottom[0]->data();
  if (by_image()) {
    Launch(queue, images_, InverseNormOfImage{channels_ * area_, eps, x, inverse_.data()});
  } else {
    for (int64_t n = 0; n < images_; ++n) {
      Launch(queue, area_,
             InverseNormOfPosition{channels_, area_, eps, x + n * channels_ * area_,
                                   inverse_.data() + n * area_});
    }
  }
  Launch(queue, images_ * channels_, L2NormForward{View(), x, top[0]->data()});
}

void NormalizeLayer::ScaleBackward(const Blobs& top, const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const Param& param = params_[0];
  const bool add = *param.has_gradient;
  float* const sums = shared() ? of_channels_.data() : param.blob->diff();
  Launch(queue, channels_,
         L2NormScaleGradient{View(), images_, add && !shared(), bottom[0]->data(), top[0]->diff(),
                             sums});
  if (shared()) Launch(queue, 1, L2NormSharedGradient{channels_, add, sums, param.blob->diff()});
}

void NormalizeLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                              const Blobs& bottom) {
  if (params_[0].wanted) ScaleBackward(top, bottom);
  if (!propagate_down[0]) return;
  Queue& queue = *context_.queue;
  const L2NormView view = View();
  const float* const x = bottom[0]->data();
  const float* const diff = top[0]->diff();
  if (by_image()) {
    Launch(queue, images_,
           L2NormProductOfImage{channels_, area_, shared(), view.scale, x, diff, product_.data()});
  } else {
    for (int64_t n = 0; n < images_; ++n) {
      const int64_t begin = n * channels_ * area_;
      Launch(queue, area_,
             L2NormProductOfPosition{channels_, area_, shared(), view.scale, x + begin,
                                     diff + begin, product_.data() + n * area_});
    }
  }
  Launch(queue, images_ * channels_,
         L2NormBackward{view, x, diff, product_.data(), bottom[0]->diff()});
}

const RegisterLayer<NormalizeLayer> normalize_layer("Normalize");

}  // namespace
}  // namespace millrace::inline contrib
