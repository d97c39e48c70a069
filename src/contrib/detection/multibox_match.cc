#include "contrib/detection/multibox_match.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "contrib/detection/boxes.h"
#include "nn/detection_scores.h"

namespace millrace::inline contrib {
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

LocationLoss::LocationLoss(const caffe::MultiBoxLossParameter& param)
    : code_(param.code_type(), param.encode_variance_in_target()),
      smooth_(param.loc_loss_type() == caffe::MultiBoxLossParameter::SMOOTH_L1),
      inside_(param.bp_inside()),
      by_prior_(param.use_prior_for_matching()),
      variance_in_target_(param.encode_variance_in_target()) {}

BoxCode::Values LocationLoss::Difference(const Prior& prior, const float* predicted,
                                         const Box& object) const {
  BoxCode::Values difference = code_.Encode(prior, object);
  for (int k = 0; k < 4; ++k) difference[k] = predicted[k] - difference[k];
  if (inside_) {
    const auto edges = ValuesOf(by_prior_ ? prior.box : code_.Decode(prior, predicted));
    for (int k = 0; k < 4; ++k) {
      if (edges[k] < 0 || edges[k] > 1) difference[k] = 0;
    }
  }
  if (!variance_in_target_) return difference;
  for (int k = 0; k < 4; ++k) {
    if (!(prior.variance[k] > 0)) {
      throw Error("the variance of a prior box is ", prior.variance[k], ", expected more than 0");
    }
    difference[k] /= prior.variance[k];
  }
  return difference;
}

float LocationLoss::Value(const BoxCode::Values& difference) const {
  float sum = 0;
  for (const float d : difference) {
    const float size = std::abs(d);
    sum += smooth_ && !(size < 1) ? size - 0.5f : 0.5f * d * d;
  }
  return sum;
}

float LocationLoss::Slope(float difference) const {
  if (!smooth_ || std::abs(difference) < 1) return difference;
  return difference > 0 ? 1.0f : difference < 0 ? -1.0f : difference;
}

using caffe::MultiBoxLossParameter;

MultiBoxMatcher::MultiBoxMatcher(const MultiBoxLossParameter& param)
    : param_(param),
      location_loss_(param),
      confidence_loss_(param.conf_loss_type(), static_cast<int>(param.num_classes())) {}

std::vector<Box> MultiBoxMatcher::Predicted(std::span<const Prior> priors,
                                            const ImagePredictions& predictions,
                                            int location_class) const {
  std::vector<Box> boxes(priors.size());
  for (size_t i = 0; i < priors.size(); ++i) {
    const float* code = predictions.locations + 4 * (i * location_classes() + location_class);
    boxes[i] = location_loss_.code().Decode(priors[i], code);
  }
  return boxes;
}

ImageMatches MultiBoxMatcher::Match(std::span<const GroundTruth> objects,
                                    std::span<const Prior> priors,
                                    const ImagePredictions& predictions) const {
  ImageMatches matches;
  if (objects.empty()) return matches;
  MatchClasses(objects, priors, predictions, &matches);
  if (mines()) Mine(objects, priors, predictions, &matches);
  return matches;
}

void MultiBoxMatcher::MatchClasses(std::span<const GroundTruth> objects,
                                   std::span<const Prior> priors,
                                   const ImagePredictions& predictions,
                                   ImageMatches* matches) const {
  const MatchRules rules{param_.match_type(), param_.overlap_threshold(),
                         param_.ignore_cross_boundary_bbox()};
  const bool shared = param_.share_location();
  if (!param_.use_prior_for_matching()) {
    for (int c = 0; c < location_classes(); ++c) {
      if (!shared && c == background()) continue;
      matches->of_class[c] = MatchBoxes(objects, Predicted(priors, predictions, c),
                                        shared ? std::nullopt : std::optional<int>(c), rules);
    }
    return;
  }
  std::vector<Box> boxes;
  for (const Prior& prior : priors) boxes.push_back(prior.box);
  const BoxMatches all = MatchBoxes(objects, boxes, std::nullopt, rules);
  if (shared) {
    matches->of_class[0] = all;
    return;
  }
  for (int c = 0; c < location_classes(); ++c) {
    if (c == background()) continue;
    BoxMatches& own = matches->of_class[c] = all;
    for (int& object : own.object) {
      if (object < 0 || objects[object].label != c) object = BoxMatches::kNone;
    }
  }
}

std::vector<float> MultiBoxMatcher::Losses(std::span<const GroundTruth> objects,
                                           std::span<const Prior> priors,
                                           const ImagePredictions& predictions,
                                           const BoxMatches& matches) const {
  const bool with_location = param_.mining_type() == MultiBoxLossParameter::HARD_EXAMPLE;
  std::vector<float> losses(priors.size());
  for (size_t i = 0; i < priors.size(); ++i) {
    const int object = matches.object[i];
    const int target = object < 0 ? background() : TargetOf(objects[object]);
    losses[i] = confidence_loss_.Value(predictions.confidences + i * num_classes(), {&target, 1});
    if (!with_location || object < 0) continue;
    losses[i] += location_loss_.Value(
        location_loss_.Difference(priors[i], predictions.locations + 4 * i, objects[object].box));
  }
  return losses;
}

std::vector<int> MultiBoxMatcher::Candidates(std::span<const Prior> priors,
                                             const ImagePredictions& predictions,
                                             const BoxMatches& matches,
                                             const std::vector<float>& losses) const {
  std::vector<int> eligible;
  for (size_t i = 0; i < priors.size(); ++i) {
    if (param_.mining_type() == MultiBoxLossParameter::HARD_EXAMPLE ||
        (matches.object[i] == BoxMatches::kNone && matches.overlap[i] < param_.neg_overlap())) {
      eligible.push_back(static_cast<int>(i));
    }
  }
  std::vector<float> own;
  for (const int i : eligible) own.push_back(losses[i]);
  std::vector<int> order;
  if (param_.has_nms_param() && param_.nms_param().nms_threshold() > 0) {
    std::vector<Box> predicted;
    if (!param_.use_prior_for_nms()) predicted = Predicted(priors, predictions, 0);
    std::vector<Box> boxes;
    for (const int i : eligible) {
      boxes.push_back(param_.use_prior_for_nms() ? priors[i].box : predicted[i]);
    }
    order = SuppressExamples(boxes, own, param_.nms_param().nms_threshold(),
                             param_.nms_param().top_k());
  } else {
    order = BestFirst(own);
  }
  for (int& i : order) i = eligible[i];
  return order;
}

void MultiBoxMatcher::Mine(std::span<const GroundTruth> objects, std::span<const Prior> priors,
                           const ImagePredictions& predictions, ImageMatches* matches) const {
  const bool hard = param_.mining_type() == MultiBoxLossParameter::HARD_EXAMPLE;
  BoxMatches& match = matches->of_class.at(0);  // mining needs share_location
  const auto positives = std::count_if(match.object.begin(), match.object.end(),
                                       [](int object) { return object >= 0; });
  const double most =
      hard ? param_.sample_size() : static_cast<double>(positives) * double{param_.neg_pos_ratio()};
  std::vector<int> chosen =
      Candidates(priors, predictions, match, Losses(objects, priors, predictions, match));
  const double count = std::clamp(most, 0.0, static_cast<double>(chosen.size()));
  chosen.resize(static_cast<size_t>(count));
  std::vector<bool> is_chosen(priors.size());
  for (const int i : chosen) is_chosen[i] = true;
  for (size_t i = 0; i < priors.size(); ++i) {
    if (match.object[i] == BoxMatches::kNone) {
      if (is_chosen[i]) matches->negatives.push_back(static_cast<int>(i));
    } else if (match.object[i] >= 0 && hard && !is_chosen[i]) {
      match.object[i] = BoxMatches::kNone;
    }
  }
}

}  // namespace millrace::inline contrib
