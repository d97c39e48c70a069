// Focal loss (Lin, Goyal, Girshick, He, Dollar 2017) of the softmax of the scores, as the FocalLoss
// of zimenglan-sysu-512/Focal-Loss with type ORIGIN. With p the softmax of x along
// softmax_param.axis, l the label of a position, and q = max(p[l], FLT_MIN),
//   top[0] = 1/Z sum over positions of -alpha (1 - p[l])^gamma log q
//   dE/dx[c] = w/Z g (p[c] - [c = l]),   w = dE/dtop[0]
//   g = alpha ((1 - p[l])^gamma - gamma (1 - p[l])^(gamma - 1) p[l] log q)
// Bottoms: scores, labels (one per position, see Labels). Positions with loss_param.ignore_label do
// not count. Z: see loss_normalization.h; the default is VALID. top[1] (optional) is p; no gradient
// flows back from it.
#include <optional>

#include "contrib/detection/focal_loss_kernels.h"
#include "nn/layers/loss/loss_layer.h"
#include "nn/layers/loss/loss_normalization.h"
#include "nn/layers/loss/position_results_gpu.h"

namespace millrace::inline contrib {
namespace {

class FocalLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  Arity arity() const override { return {2, 2, 1, 2}; }
  std::set<std::string> fields() const override {
    return {"focal_loss_param", "softmax_param", "loss_param"};
  }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  AxisView view_;
  std::optional<Labels> labels_;
  Blob probability_{memory()};  // p of the last Forward
};

FocalTerms TermsOf(const caffe::FocalLossParameter& param, const Labels& labels,
                   const AxisView& view, const float* label_data, const float* probability) {
  return {{LabelsForKernels(labels, view), label_data},
          {view.classes, view.inner},
          param.alpha(),
          param.gamma(),
          probability};
}

void FocalLossLayer::SetUp(const Blobs&, const Blobs&) {
  const caffe::FocalLossParameter& param = param_.focal_loss_param();
  if (param.type() != caffe::FocalLossParameter::ORIGIN) {
    throw FieldError("focal_loss_param.type", "LINEAR given, expected ORIGIN");
  }
  if (!(param.gamma() >= 0)) {
    throw FieldError("focal_loss_param.gamma", param.gamma(), " given, expected at least 0");
  }
  if (!(param.alpha() >= 0)) {
    throw FieldError("focal_loss_param.alpha", param.alpha(), " given, expected at least 0");
  }
  labels_.emplace(name(), IgnoredLabelOf(param_.loss_param()));
}

void FocalLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  view_ = AxisView(*bottom[0], param_.softmax_param().axis(), "softmax_param.axis");
  labels_->CheckShape(*bottom[1], view_);
  probability_.ReshapeLike(*bottom[0]);
  ReshapeLoss(top, view_.outer * view_.inner);
  if (top.size() > 1) top[1]->ReshapeLike(*bottom[0]);
}

void FocalLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  float* const probability = probability_.data();
  Launch(queue, view_.outer * view_.inner,
         SoftmaxForward{{view_.classes, view_.inner}, bottom[0]->data(), probability});
  const LossNormalizer normalizer =
      NormalizerOf(param_.loss_param(), caffe::LossParameter::VALID, view_.outer, view_.inner);
  sum_.Enqueue(queue,
               TermsOf(param_.focal_loss_param(), *labels_, view_, bottom[1]->data(), probability),
               normalizer, top[0]->data());
  if (top.size() > 1) {
    queue.Copy(top[1]->data(), probability, probability_.count() * sizeof(float));
  }
}

void FocalLossLayer::CheckForward(const Blobs& bottom) {
  sum_.CheckLabels(*labels_, view_, *bottom[1]);
}

void FocalLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                              const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, view_.outer * view_.inner,
         FocalBackward{sum_.Scale(top[0]->diff()),
                       TermsOf(param_.focal_loss_param(), *labels_, view_, bottom[1]->data(),
                               probability_.data()),
                       bottom[0]->diff()});
}

const RegisterLayer<FocalLossLayer> focal_loss_layer("FocalLoss");

}  // namespace
}  // namespace millrace::inline contrib
