#include "nn/layers/infogain_loss_layer.h"

#include "nn/layers/infogain_loss_kernels.h"
#include "nn/layers/kernel_labels.h"
#include "nn/layers/loss_normalization.h"
#include "proto/parse.h"

namespace millrace::inline nn {

namespace {

InfogainTerms TermsOf(const Labels& labels, const AxisView& view, const float* label_data,
                      const float* matrix, const float* probability) {
  return {{{view.classes, view.inner}, LabelsForKernels(labels, view), label_data},
          matrix,
          probability};
}

}  // namespace

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

namespace {
const RegisterLayer<InfogainLossLayer> registered("InfogainLoss");
}

}  // namespace millrace::inline nn
