// Center loss (Wen, Zhang, Li, Qiao 2016), as in ydwen/caffe-face: the distance of each example's
// features x {K} from the learnable center of its class. With M examples, labels l and centers C
// {num_output, K},
//   top[0] = 1/(2M) sum over examples of |x - C[l]|^2
//   dE/dx = w/M (x - C[l]),   w = dE/dtop[0]
// The centers have their own rule, which neither w nor M scales. With n_c examples of class c,
//   gradient of C[c] = 1/(1 + n_c) sum over the examples of class c of (C[c] - x)
// Bottoms: features, labels (one per example); the axes from center_loss_param.axis on form K.
#include "contrib/faces/distance_kernels.h"
#include "nn/filler.h"
#include "nn/layers/loss/loss_layer.h"

namespace millrace::inline contrib {
namespace {

class CenterLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  std::set<std::string> fields() const override { return {"center_loss_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  int64_t features_ = 0;  // K
  AxisView view_;         // of the labels: examples, classes
};

CenterTerms TermsOf(const AxisView& view, int64_t features, const Blobs& bottom,
                    const Blob& centers) {
  return {
      {{view.classes, false, 0}, bottom[1]->data()}, features, bottom[0]->data(), centers.data()};
}

void CenterLossLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::CenterLossParameter& param = param_.center_loss_param();
  if (param.num_output() < 1) {
    throw FieldError("center_loss_param.num_output", param.num_output(),
                     " given, expected at least 1");
  }
  const int axis = bottom[0]->CanonicalAxis(param.axis(), "center_loss_param.axis");
  features_ = bottom[0]->count(axis);
  const Shape shape{param.num_output(), features_};
  CheckFiller(param.center_filler(), shape, "center_loss_param.center_filler");
  AddParam(shape, param.center_filler());
}

void CenterLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckOneLabelPerExample(bottom);
  if (bottom[0]->count() != bottom[0]->dim(0) * features_) {
    throw FieldError("bottom[0]", "has shape ", ShapeText(bottom[0]->shape()), ", expected ",
                     features_, " values per example");
  }
  view_.outer = bottom[0]->dim(0);
  view_.classes = param_.center_loss_param().num_output();
  view_.inner = 1;
  ReshapeLoss(top, bottom[0]->count());
}

void CenterLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, TermsOf(view_, features_, bottom, *params_[0].blob),
               {false, 2 * static_cast<float>(view_.outer)}, top[0]->data());
}

void CenterLossLayer::CheckForward(const Blobs& bottom) {
  sum_.CheckLabels(Labels(name(), {}), view_, *bottom[1]);
}

void CenterLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                               const Blobs& bottom) {
  const Param& centers = params_[0];
  const CenterTerms terms = TermsOf(view_, features_, bottom, *centers.blob);
  if (centers.wanted) {
    Launch(*context_.queue, view_.classes,
           CenterGradient{terms, view_.outer, *centers.has_gradient, centers.blob->diff()});
  }
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         CenterLossBackward{sum_.Scale(top[0]->diff()), terms, bottom[0]->diff()});
}

const RegisterLayer<CenterLossLayer> center_loss_layer("CenterLoss");

}  // namespace
}  // namespace millrace::inline contrib
