#include "nn/boxes/confidence_loss.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace millrace::inline nn {
namespace {

float Largest(const float* scores, int classes) {
  return *std::max_element(scores, scores + classes);
}

float SumOfExponentials(const float* scores, int classes, float largest) {
  float sum = 0;
  for (int c = 0; c < classes; ++c) sum += std::exp(scores[c] - largest);
  return sum;
}

}  // namespace

float ConfidenceLoss::Value(const float* scores, std::span<const int> targets) const {
  if (type_ == caffe::MultiBoxLossParameter::SOFTMAX) {
    const float largest = Largest(scores, classes_);
    const float share =
        std::exp(scores[targets.back()] - largest) / SumOfExponentials(scores, classes_, largest);
    return -std::log(share < FLT_MIN ? FLT_MIN : share);
  }
  float sum = 0;
  for (int c = 0; c < classes_; ++c) {
    const float x = scores[c];
    const bool wanted = std::find(targets.begin(), targets.end(), c) != targets.end();
    sum += std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0f) - (wanted ? x : 0);
  }
  return sum;
}

void ConfidenceLoss::Gradient(const float* scores, std::span<const int> targets, float scale,
                              float* gradient) const {
  if (type_ == caffe::MultiBoxLossParameter::SOFTMAX) {
    const float largest = Largest(scores, classes_);
    const float factor = scale / SumOfExponentials(scores, classes_, largest);
    for (int c = 0; c < classes_; ++c) gradient[c] = factor * std::exp(scores[c] - largest);
    gradient[targets.back()] -= scale;
    return;
  }
  for (int c = 0; c < classes_; ++c) gradient[c] = scale / (1 + std::exp(-scores[c]));
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto before = targets.first(i);
    if (std::find(before.begin(), before.end(), targets[i]) == before.end()) {
      gradient[targets[i]] -= scale;
    }
  }
}

}  // namespace millrace::inline nn
