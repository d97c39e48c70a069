// The loss of the scores x that a net gives a box for each class, against the targets of the box.
//   SOFTMAX   -log(max(softmax(x)[target], FLT_MIN)); there is one target, the last of those given
//   LOGISTIC  the sum over all classes of the cross entropy of sigmoid(x) with 1 for targets and 0
//             for the others
#ifndef MILLRACE_NN_BOXES_CONFIDENCE_LOSS_H_
#define MILLRACE_NN_BOXES_CONFIDENCE_LOSS_H_

#include <span>

#include "proto/caffe.pb.h"

namespace millrace::inline nn {

class ConfidenceLoss {
 public:
  using Type = caffe::MultiBoxLossParameter::ConfLossType;

  ConfidenceLoss(Type type, int classes) : type_(type), classes_(classes) {}

  // `scores`: one per class. Targets are classes; SOFTMAX needs one. NaN scores give NaN.
  float Value(const float* scores, std::span<const int> targets) const;
  // Writes `scale` times the derivatives of Value, one per class. As for SoftmaxWithLoss, that of
  // the lower limit of the logarithm's argument is not taken into account.
  void Gradient(const float* scores, std::span<const int> targets, float scale,
                float* gradient) const;

 private:
  Type type_;
  int classes_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_BOXES_CONFIDENCE_LOSS_H_
