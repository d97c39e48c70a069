// Losses of class scores and probabilities.
#include <optional>

#include "nn/layers/loss/class_loss_kernels.h"
#include "nn/layers/loss/loss_layer.h"
#include "nn/layers/loss/loss_normalization.h"
#include "nn/layers/loss/position_results_gpu.h"
#include "proto/parse.h"

namespace millrace::inline nn {
namespace {

// One-versus-all hinge loss. With N examples of scores x, labels l, and s = -1 for the score of the
// label and 1 for the others,
//   m[n][c] = max(0, 1 + s x[n][c])
//   L1:  top[0] = 1/N sum of m,     dE/dx = w/N s [m > 0],   w = dE/dtop[0]
//   L2:  top[0] = 1/N sum of m^2,   dE/dx = 2w/N s m
// Bottoms: scores (all values of an example are its classes), labels (one per example). The norm is
// hinge_loss_param.norm.
class HingeLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  std::set<std::string> fields() const override { return {"hinge_loss_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  AxisView view_;
};

HingeTerms TermsOf(const AxisView& view, const caffe::HingeLossParameter& param,
                   const Blobs& bottom) {
  const KernelLabels labels_are{view.classes, false, 0};
  return {{{view.classes, view.inner}, labels_are, bottom[1]->data()},
          param.norm() == caffe::HingeLossParameter::L2,
          bottom[0]->data()};
}

void HingeLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckOneLabelPerExample(bottom);
  view_.outer = bottom[0]->dim(0);
  view_.classes = bottom[0]->count(1);
  view_.inner = 1;
  ReshapeLoss(top, bottom[0]->count());
}

void HingeLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, TermsOf(view_, param_.hinge_loss_param(), bottom),
               {false, static_cast<float>(view_.outer)}, top[0]->data());
}

void HingeLossLayer::CheckForward(const Blobs& bottom) {
  sum_.CheckLabels(Labels(name(), {}), view_, *bottom[1]);
}

void HingeLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                              const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         HingeBackward{sum_.Scale(top[0]->diff()),
                       TermsOf(view_, param_.hinge_loss_param(), bottom), bottom[0]->diff()});
}

const RegisterLayer<HingeLossLayer> hinge_loss("HingeLoss");

// A softmax loss that weighs each confusion of classes by a matrix H {classes, classes}. With p the
// softmax of the scores along infogain_loss_param.axis and l the label of a position,
//   top[0] = 1/Z sum over positions and classes c of -H[l][c] log max(p[c], 1e-20)
//   dE/dx[c] = w/Z (p[c] sum over k of H[l][k] - H[l][c]),   w = dE/dtop[0]
// H the identity is SoftmaxWithLoss. Bottoms: scores, labels (one per position, see Labels), and
// optionally H; without it H is read from the file infogain_loss_param.source, a BlobProto. No
// gradient flows to labels and H. Positions with loss_param.ignore_label do not count. Z: see
// loss_normalization.h; the default is VALID, and the legacy `normalize` is refused, as in Caffe.
// top[1] (optional) is p; no gradient flows back from it.
class InfogainLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  Arity arity() const override { return {2, 3, 1, 2}; }
  std::set<std::string> fields() const override { return {"infogain_loss_param", "loss_param"}; }
  bool AllowBackward(int bottom) const override { return bottom == 0; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  const Blob& Matrix(const Blobs& bottom) const { return bottom.size() > 2 ? *bottom[2] : matrix_; }

  AxisView view_;
  std::optional<Labels> labels_;
  Blob matrix_{memory()};       // H from the file
  Blob row_sums_{memory()};     // of H
  Blob probability_{memory()};  // p of the last Forward
};

InfogainTerms TermsOf(const Labels& labels, const AxisView& view, const float* label_data,
                      const float* matrix, const float* probability) {
  return {{{view.classes, view.inner}, LabelsForKernels(labels, view), label_data},
          matrix,
          probability};
}

void InfogainLossLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::LossParameter& loss = param_.loss_param();
  if (loss.has_normalize()) {
    throw FieldError("loss_param.normalize", loss.normalize() ? "true" : "false",
                     " given, expected loss_param.normalization instead");
  }
  labels_.emplace(name(), IgnoredLabelOf(loss));
  if (bottom.size() > 2) return;
  const caffe::InfogainLossParameter& param = param_.infogain_loss_param();
  if (!param.has_source()) {
    throw FieldError("infogain_loss_param.source",
                     "missing, expected a file or a third bottom with the matrix");
  }
  caffe::BlobProto proto;
  try {
    LoadBinary(param.source(), "matrix (a BlobProto)", &proto);
    matrix_.Reshape(ShapeOf(proto));
    matrix_.FromProto(proto, param.source());
  } catch (const Error& error) {
    throw FieldError("infogain_loss_param.source", error.what());
  }
}

void InfogainLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  view_ = AxisView(*bottom[0], param_.infogain_loss_param().axis(), "infogain_loss_param.axis");
  labels_->CheckShape(*bottom[1], view_);
  const Blob& matrix = Matrix(bottom);
  if (matrix.count() != view_.classes * view_.classes) {
    throw FieldError(bottom.size() > 2 ? "bottom[2]" : "infogain_loss_param.source", "has shape ",
                     ShapeText(matrix.shape()), ", expected a matrix of ", view_.classes, " x ",
                     view_.classes, " values");
  }
  row_sums_.Reshape({view_.classes});
  probability_.ReshapeLike(*bottom[0]);
  ReshapeLoss(top, bottom[0]->count());
  if (top.size() > 1) top[1]->ReshapeLike(*bottom[0]);
}

void InfogainLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  float* const probability = probability_.data();
  Launch(queue, view_.outer * view_.inner,
         SoftmaxForward{{view_.classes, view_.inner}, bottom[0]->data(), probability});
  const LossNormalizer normalizer =
      NormalizerOf(param_.loss_param(), caffe::LossParameter::VALID, view_.outer, view_.inner);
  sum_.Enqueue(queue,
               TermsOf(*labels_, view_, bottom[1]->data(), Matrix(bottom).data(), probability),
               normalizer, top[0]->data());
  if (top.size() > 1) {
    queue.Copy(top[1]->data(), probability, probability_.count() * sizeof(float));
  }
}

void InfogainLossLayer::CheckForward(const Blobs& bottom) {
  sum_.CheckLabels(*labels_, view_, *bottom[1]);
}

void InfogainLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                 const Blobs& bottom) {
  if (!propagate_down[0]) return;
  const float* const matrix = Matrix(bottom).data();
  Launch(*context_.queue, view_.classes, InfogainRowSums{view_.classes, matrix, row_sums_.data()});
  Launch(*context_.queue, bottom[0]->count(),
         InfogainBackward{sum_.Scale(top[0]->diff()),
                          TermsOf(*labels_, view_, bottom[1]->data(), matrix, probability_.data()),
                          row_sums_.data(), bottom[0]->diff()});
}

const RegisterLayer<InfogainLossLayer> infogain_loss("InfogainLoss");

// Multinomial logistic loss of probabilities p, which another layer computes. With N examples and
// labels l,
//   top[0] = 1/N sum of -log max(p[l], 1e-20)
//   dE/dp[c] = -w/N [c = l] / max(p[l], 1e-20),   w = dE/dtop[0]
// Bottoms: probabilities (all values of an example are its classes), labels (one per example).
// SoftmaxWithLoss computes the gradient by the scores more exactly.
class MultinomialLogisticLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void CheckForward(const Blobs& bottom) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  AxisView view_;
};

MultinomialLogisticTerms TermsOf(const AxisView& view, const Blobs& bottom) {
  return {{{view.classes, false, 0}, bottom[1]->data()}, bottom[0]->data()};
}

void MultinomialLogisticLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckOneLabelPerExample(bottom);
  view_.outer = bottom[0]->dim(0);
  view_.classes = bottom[0]->count(1);
  view_.inner = 1;
  ReshapeLoss(top, view_.outer);
}

void MultinomialLogisticLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, TermsOf(view_, bottom), {false, static_cast<float>(view_.outer)},
               top[0]->data());
}

void MultinomialLogisticLossLayer::CheckForward(const Blobs& bottom) {
  sum_.CheckLabels(Labels(name(), {}), view_, *bottom[1]);
}

void MultinomialLogisticLossLayer::Backward(const Blobs& top,
                                            const std::vector<bool>& propagate_down,
                                            const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         MultinomialLogisticBackward{sum_.Scale(top[0]->diff()), TermsOf(view_, bottom),
                                     bottom[0]->diff()});
}

const RegisterLayer<MultinomialLogisticLossLayer> multinomial_logistic_loss(
    "MultinomialLogisticLoss");

// Cross entropy of independent targets t in [0, 1] and the sigmoids of the scores x:
//   top[0] = 1/Z sum of -t log s - (1 - t) log(1 - s),   s = 1 / (1 + exp(-x))
//          = 1/Z sum of max(x, 0) - x t + log(1 + exp(-|x|))       (does not overflow)
//   dE/dx = w/Z (s - t),   w = dE/dtop[0]
// Bottoms: x, t, with the same number of values. Targets that are loss_param.ignore_label after
// truncation to a whole number count neither in the sum nor in the gradient. Z: see
// loss_normalization.h; a position is a value, the outer ones are the examples, and the default is
// BATCH_SIZE.
class SigmoidCrossEntropyLossLayer : public LossLayer {
 public:
  using LossLayer::LossLayer;

  std::set<std::string> fields() const override { return {"loss_param"}; }
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  LossNormalizer normalizer_{};
};

SigmoidCrossEntropyTerms TermsOf(const caffe::LossParameter& loss, const Blobs& bottom) {
  return {loss.has_ignore_label(), static_cast<float>(loss.ignore_label()), bottom[0]->data(),
          bottom[1]->data()};
}

void SigmoidCrossEntropyLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckSameCount(bottom, 1);
  normalizer_ = NormalizerOf(param_.loss_param(), caffe::LossParameter::BATCH_SIZE,
                             bottom[0]->dim(0), bottom[0]->count(1));
  ReshapeLoss(top, bottom[0]->count());
}

void SigmoidCrossEntropyLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  sum_.Enqueue(*context_.queue, TermsOf(param_.loss_param(), bottom), normalizer_, top[0]->data());
}

void SigmoidCrossEntropyLossLayer::Backward(const Blobs& top,
                                            const std::vector<bool>& propagate_down,
                                            const Blobs& bottom) {
  if (!propagate_down[0]) return;
  Launch(*context_.queue, bottom[0]->count(),
         SigmoidCrossEntropyBackward{sum_.Scale(top[0]->diff()),
                                     TermsOf(param_.loss_param(), bottom), bottom[0]->diff()});
}

const RegisterLayer<SigmoidCrossEntropyLossLayer> sigmoid_cross_entropy_loss(
    "SigmoidCrossEntropyLoss");

}  // namespace
}  // namespace millrace::inline nn
