#include "nn/boxes/multibox_match.h"

#include <algorithm>
#include <numeric>

#include "nn/boxes/box_nms.h"

namespace millrace::inline nn {

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

}  // namespace millrace::inline nn
