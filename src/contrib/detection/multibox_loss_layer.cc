// The loss of SSD (Liu and others 2016). With x the prior boxes that count, the location loss L and
// the confidence loss C (multibox_match.h),
//   top = (loc_weight * sum over priors with an object of L + sum over x of C) / Z
// Z by loss_param.normalization: VALID (default) the number of priors with an object; FULL all
// priors of all images; BATCH_SIZE the images; NONE 1; at least 1. A `propagate_down: false` of
// bottom 0 or 1 leaves out its part.
//
// Bottoms: locations, confidences, priors (box_code.h), and ground truth (ground_truth.h). The
// gradient takes matches and choices as fixed. As in SSD, that of the locations does not take the
// variances of encode_variance_in_target into account.
//
// The host computes. From other devices the bottoms are copied to it.
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "contrib/detection/box_code.h"
#include "contrib/detection/multibox_match.h"
#include "millrace/layer.h"
#include "nn/layers/loss/loss_normalization.h"

namespace millrace::inline contrib {
namespace {

class MultiBoxLossLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {4, 4, 1, 1}; }
  std::set<std::string> fields() const override { return {"multibox_loss_param", "loss_param"}; }
  float DefaultLossWeight(int top) const override { return top == 0 ? 1 : 0; }
  bool AllowBackward(int bottom) const override { return bottom < 2; }
  bool AutoTop() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // Waits for the work before it. Throws Error for ground truth that is not valid.
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;

 private:
  // A prior with an object.
  struct LocationTerm {
    int64_t at;  // of its first value in bottom 0
    BoxCode::Values difference;
  };
  // A prior that counts, with targets_[begin, end).
  struct ConfidenceTerm {
    int64_t at;  // of its first value in bottom 1
    size_t begin, end;
  };

  // Sets the terms. `scores`: of bottom 1, in host memory.
  void Collect(const Blobs& bottom, const float* scores);
  void CollectImage(int64_t image, std::span<const GroundTruth> objects,
                    std::span<const Prior> priors, const ImagePredictions& predictions);
  void AddConfidence(int64_t image, int64_t prior, std::span<const int> targets);
  std::span<const int> TargetsOf(const ConfidenceTerm& term) const {
    return std::span(targets_).subspan(term.begin, term.end - term.begin);
  }
  bool Counts(int bottom) const {
    return bottom >= param_.propagate_down_size() || param_.propagate_down(bottom);
  }
  float Normalizer() const;

  std::optional<MultiBoxMatcher> matcher_;
  BoxShapes shapes_;
  std::vector<LocationTerm> locations_;  // of the last Forward
  std::vector<ConfidenceTerm> confidences_;
  std::vector<int> targets_;
};

using caffe::MultiBoxLossParameter;

void CheckBackground(const MultiBoxLossParameter& param) {
  const bool needed = param.conf_loss_type() == MultiBoxLossParameter::SOFTMAX ||
                      param.mining_type() != MultiBoxLossParameter::NONE;
  if (!needed || param.background_label_id() < param.num_classes()) return;
  throw FieldError("multibox_loss_param.background_label_id", param.background_label_id(),
                   " given, expected less than num_classes: ", param.num_classes());
}

void CheckMining(const MultiBoxLossParameter& param) {
  const bool mines = param.mining_type() != MultiBoxLossParameter::NONE;
  if (param.has_do_neg_mining() && param.do_neg_mining() != mines) {
    throw FieldError("multibox_loss_param.do_neg_mining", param.do_neg_mining() ? "true" : "false",
                     " given, but mining_type is ",
                     MultiBoxLossParameter::MiningType_Name(param.mining_type()));
  }
  if (mines && !param.share_location()) {
    throw FieldError("multibox_loss_param.share_location",
                     "false given, expected true or mining_type: NONE");
  }
  if (param.mining_type() == MultiBoxLossParameter::HARD_EXAMPLE && param.sample_size() < 1) {
    throw FieldError("multibox_loss_param.sample_size", param.sample_size(),
                     " given, expected at least 1");
  }
}

void CheckAgnostic(const MultiBoxLossParameter& param) {
  if (!param.map_object_to_agnostic()) return;
  // An identifier beyond all classes, such as -1 converted, stands for no background.
  const auto background = static_cast<int32_t>(param.background_label_id());
  const uint32_t classes = background >= 0 ? 2 : 1;
  if (param.num_classes() == classes && background <= 0) return;
  throw FieldError("multibox_loss_param.map_object_to_agnostic",
                   "true given, expected num_classes: 2 and background_label_id: 0");
}

// Adds to errors where they come from.
template <typename Body>
void OfLayer(const std::string& name, Body body) {
  try {
    body();
  } catch (const Error& error) {
    throw Error("layer '", name, "': ", error.what());
  }
}

void MultiBoxLossLayer::SetUp(const Blobs&, const Blobs&) {
  const MultiBoxLossParameter& param = param_.multibox_loss_param();
  if (param.num_classes() < 1) {
    throw FieldError("multibox_loss_param.num_classes", param.num_classes(),
                     " given, expected at least 1");
  }
  CheckBackground(param);
  CheckMining(param);
  CheckAgnostic(param);
  matcher_.emplace(param);
}

void MultiBoxLossLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  shapes_ = BoxShapesOf(bottom, matcher_->location_classes(), matcher_->num_classes());
  CheckGroundTruthShape(*bottom[3], "bottom[3]");
  top[0]->Reshape({});
}

float MultiBoxLossLayer::Normalizer() const {
  const LossNormalizer fixed = NormalizerOf(
      param_.loss_param(), param_.loss_param().normalization(), shapes_.images, shapes_.priors);
  return std::max(1.0f, fixed.by_counted ? static_cast<float>(locations_.size()) : fixed.fixed);
}

void MultiBoxLossLayer::AddConfidence(int64_t image, int64_t prior, std::span<const int> targets) {
  const size_t begin = targets_.size();
  targets_.insert(targets_.end(), targets.begin(), targets.end());
  confidences_.push_back(
      {(image * shapes_.priors + prior) * matcher_->num_classes(), begin, targets_.size()});
}

void MultiBoxLossLayer::CollectImage(int64_t image, std::span<const GroundTruth> objects,
                                     std::span<const Prior> priors,
                                     const ImagePredictions& predictions) {
  const ImageMatches matches = matcher_->Match(objects, priors, predictions);
  const int classes = matcher_->location_classes();
  std::vector<std::pair<int, int>> targets;  // prior, class
  for (const auto& [location_class, match] : matches.of_class) {
    for (int64_t i = 0; i < shapes_.priors; ++i) {
      if (match.object[i] < 0) continue;
      const GroundTruth& object = objects[match.object[i]];
      const int64_t at = 4 * (i * classes + location_class);
      locations_.push_back({4 * image * shapes_.priors * classes + at,
                            matcher_->location_loss().Difference(
                                priors[i], predictions.locations + at, object.box)});
      targets.emplace_back(i, matcher_->TargetOf(object));
    }
  }
  const int background = matcher_->background();
  if (matcher_->mines()) {
    for (const auto& [prior, target] : targets) AddConfidence(image, prior, {&target, 1});
    for (const int prior : matches.negatives) AddConfidence(image, prior, {&background, 1});
    return;
  }
  std::stable_sort(targets.begin(), targets.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const bool softmax =
      param_.multibox_loss_param().conf_loss_type() == MultiBoxLossParameter::SOFTMAX;
  auto next = targets.begin();
  std::vector<int> own;
  for (int i = 0; i < shapes_.priors; ++i) {
    own.clear();
    for (; next != targets.end() && next->first == i; ++next) own.push_back(next->second);
    if (own.empty() && softmax) own.push_back(background);
    AddConfidence(image, i, own);
  }
}

void MultiBoxLossLayer::Collect(const Blobs& bottom, const float* scores) {
  locations_.clear();
  confidences_.clear();
  targets_.clear();
  std::vector<float> locations, prior_values, truth;
  const float* const loc = bottom[0]->DataOnHost(&locations);
  const std::vector<Prior> priors =
      ReadPriors(bottom[2]->DataOnHost(&prior_values), shapes_.priors);
  const bool agnostic = param_.multibox_loss_param().map_object_to_agnostic();
  GroundTruthRules rules;
  rules.classes = agnostic ? std::numeric_limits<int>::max() : matcher_->num_classes();
  rules.background = matcher_->background();
  rules.with_difficult = param_.multibox_loss_param().use_difficult_gt();
  rules.batch = shapes_.images;
  const auto objects = ReadGroundTruth(bottom[3]->DataOnHost(&truth), bottom[3]->dim(2), rules);
  const int64_t loc_count = bottom[0]->count(1), conf_count = bottom[1]->count(1);
  for (int64_t image = 0; image < shapes_.images; ++image) {
    const auto found = objects.find(image);
    CollectImage(image,
                 found == objects.end() ? std::span<const GroundTruth>() : std::span(found->second),
                 priors, {loc + image * loc_count, scores + image * conf_count});
  }
}

void MultiBoxLossLayer::Forward(const Blobs& bottom, const Blobs& top) {
  context_.queue->Synchronize();
  std::vector<float> copy;
  const float* const scores = bottom[1]->DataOnHost(&copy);
  OfLayer(name(), [&] { Collect(bottom, scores); });
  double location = 0, confidence = 0;
  for (const LocationTerm& term : locations_) {
    location += double{matcher_->location_loss().Value(term.difference)};
  }
  for (const ConfidenceTerm& term : confidences_) {
    confidence += double{matcher_->confidence_loss().Value(scores + term.at, TargetsOf(term))};
  }
  double loss = 0;
  if (Counts(0)) loss += double{param_.multibox_loss_param().loc_weight()} * location;
  if (Counts(1)) loss += confidence;
  const auto value = static_cast<float>(loss / double{Normalizer()});
  top[0]->CopyDataFromHost(&value);
}

void MultiBoxLossLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                                 const Blobs& bottom) {
  context_.queue->Synchronize();
  float scale;
  top[0]->CopyDiffToHost(&scale);
  scale /= Normalizer();
  if (propagate_down[0]) {
    const float weight = scale * param_.multibox_loss_param().loc_weight();
    std::vector<float> gradient(bottom[0]->count());
    for (const LocationTerm& term : locations_) {
      for (int k = 0; k < 4; ++k) {
        gradient[term.at + k] = weight * matcher_->location_loss().Slope(term.difference[k]);
      }
    }
    bottom[0]->CopyDiffFromHost(gradient.data());
  }
  if (!propagate_down[1]) return;
  std::vector<float> copy, gradient(bottom[1]->count());
  const float* const scores = bottom[1]->DataOnHost(&copy);
  for (const ConfidenceTerm& term : confidences_) {
    matcher_->confidence_loss().Gradient(scores + term.at, TargetsOf(term), scale,
                                         gradient.data() + term.at);
  }
  bottom[1]->CopyDiffFromHost(gradient.data());
}

const RegisterLayer<MultiBoxLossLayer> multibox_loss_layer("MultiBoxLoss");

}  // namespace
}  // namespace millrace::inline contrib
