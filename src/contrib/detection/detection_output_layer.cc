// The objects that SSD (Liu and others 2016) finds: boxes decoded from locations and priors
// (contrib/detection/box_code.h), and for each class but the background those that non-maximum
// suppression leaves (contrib/detection/boxes.h) of the scores above confidence_threshold; with
// keep_top_k at most that many with the best scores per image.
//
// Bottoms: locations, confidences (after softmax or sigmoid), priors (box_code.h); a fourth, the
// images, is for SSD's `visualize` only, which needs a window and is ignored.
// top {1, 1, rows, 7}: detections (contrib/detection/detection_files.h), by image and class, in the
// order of suppression, or with keep_top_k of falling scores. If there are none in the batch, one
// row per image, of its number and then -1. save_output_param: contrib/detection/detection_files.h.
//
// The host computes. From other devices the bottoms are copied to it.
#include <glog/logging.h>

#include <algorithm>
#include <cfloat>
#include <memory>
#include <span>
#include <vector>

#include "contrib/detection/box_code.h"
#include "contrib/detection/boxes.h"
#include "contrib/detection/detection_files.h"
#include "millrace/layer.h"
#include "nn/detection_scores.h"

namespace millrace::inline contrib {
namespace {

class DetectionOutputLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {3, 4, 1, 1}; }
  std::set<std::string> fields() const override {
    return {"detection_output_param", "transform_param"};
  }
  bool AllowBackward(int) const override { return false; }
  bool ReshapesInForward() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  // The first call shapes the top for the most detections; later ones detect.
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // Throws Error if results cannot be saved.
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  int64_t LocationClasses() const;
  int64_t MaxRows() const;
  void Detect(const Blobs& bottom);
  std::vector<Detection> DetectIn(int64_t image, std::span<const Prior> priors,
                                  const float* locations, const float* confidences) const;

  BoxShapes shapes_;
  bool shaped_ = false;
  std::vector<std::vector<Detection>> found_;  // by image
  std::vector<float> rows_;
  std::unique_ptr<DetectionFiles> files_;
};

NmsRules RulesOf(const caffe::DetectionOutputParameter& param) {
  NmsRules rules;
  rules.min_score = param.has_confidence_threshold() ? param.confidence_threshold() : -FLT_MAX;
  rules.threshold = param.nms_param().nms_threshold();
  rules.eta = param.nms_param().eta();
  if (param.nms_param().has_top_k()) rules.top_k = param.nms_param().top_k();
  return rules;
}

// The `count` best, by class and falling score.
void KeepBest(size_t count, std::vector<Detection>* found) {
  if (found->size() <= count) return;
  std::vector<float> scores;
  for (const Detection& each : *found) scores.push_back(each.score);
  std::vector<int> best = BestFirst(scores);
  best.resize(count);
  std::vector<Detection> kept;
  for (const int i : best) kept.push_back((*found)[i]);
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Detection& a, const Detection& b) { return a.label < b.label; });
  *found = std::move(kept);
}

int64_t DetectionOutputLayer::LocationClasses() const {
  const caffe::DetectionOutputParameter& param = param_.detection_output_param();
  return param.share_location() ? 1 : param.num_classes();
}

void DetectionOutputLayer::SetUp(const Blobs&, const Blobs&) {
  const caffe::DetectionOutputParameter& param = param_.detection_output_param();
  if (param.num_classes() < 1) {
    throw FieldError("detection_output_param.num_classes", param.num_classes(),
                     " given, expected at least 1");
  }
  const caffe::NonMaximumSuppressionParameter& nms = param.nms_param();
  if (!(nms.nms_threshold() >= 0)) {
    throw FieldError("detection_output_param.nms_param.nms_threshold", nms.nms_threshold(),
                     " given, expected at least 0");
  }
  if (!(nms.eta() > 0 && nms.eta() <= 1)) {
    throw FieldError("detection_output_param.nms_param.eta", nms.eta(),
                     " given, expected more than 0 and at most 1");
  }
  if (param.visualize()) {
    LOG(WARNING) << "layer '" << name()
                 << "': detection_output_param.visualize is ignored: there is no window";
  }
  files_ = DetectionFiles::Open(param);
}

int64_t DetectionOutputLayer::MaxRows() const {
  const caffe::DetectionOutputParameter& param = param_.detection_output_param();
  const int64_t top_k = param.nms_param().has_top_k() ? param.nms_param().top_k() : -1;
  const int64_t of_class = top_k >= 0 ? std::min(top_k, shapes_.priors) : shapes_.priors;
  int64_t of_image = of_class * param.num_classes();
  if (param.keep_top_k() >= 0) of_image = std::min<int64_t>(of_image, param.keep_top_k());
  return shapes_.images * std::max<int64_t>(of_image, 1);
}

void DetectionOutputLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  shapes_ = BoxShapesOf(bottom, LocationClasses(), param_.detection_output_param().num_classes());
  if (!shaped_) {
    shaped_ = true;
    top[0]->Reshape({1, 1, MaxRows(), Detection::kColumns});
    return;
  }
  Detect(bottom);
  top[0]->Reshape(
      {1, 1, static_cast<int64_t>(rows_.size()) / Detection::kColumns, Detection::kColumns});
}

std::vector<Detection> DetectionOutputLayer::DetectIn(int64_t image, std::span<const Prior> priors,
                                                      const float* locations,
                                                      const float* confidences) const {
  const caffe::DetectionOutputParameter& param = param_.detection_output_param();
  const BoxCode code(param.code_type(), param.variance_encoded_in_target());
  const NmsRules rules = RulesOf(param);
  const int classes = static_cast<int>(param.num_classes());
  const int64_t location_classes = LocationClasses();
  std::vector<Box> boxes(priors.size());
  std::vector<float> scores(priors.size());
  std::vector<Detection> found;
  bool decoded = false;
  for (int c = 0; c < classes; ++c) {
    if (c == param.background_label_id()) continue;
    const int64_t location_class = param.share_location() ? 0 : c;
    for (size_t i = 0; i < priors.size(); ++i) {
      scores[i] = confidences[i * classes + c];
      if (decoded) continue;
      boxes[i] = code.Decode(priors[i], locations + 4 * (i * location_classes + location_class));
    }
    decoded = param.share_location();
    for (const int i : SuppressBoxes(boxes, scores, rules)) {
      found.push_back({image, c, scores[i], boxes[i]});
    }
  }
  if (param.keep_top_k() >= 0) KeepBest(param.keep_top_k(), &found);
  return found;
}

void DetectionOutputLayer::Detect(const Blobs& bottom) {
  std::vector<float> locations, confidences, prior_values;
  const float* const loc = bottom[0]->DataOnHost(&locations);
  const float* const conf = bottom[1]->DataOnHost(&confidences);
  const std::vector<Prior> priors =
      ReadPriors(bottom[2]->DataOnHost(&prior_values), shapes_.priors);
  found_.clear();
  rows_.clear();
  for (int64_t n = 0; n < shapes_.images; ++n) {
    found_.push_back(
        DetectIn(n, priors, loc + n * bottom[0]->count(1), conf + n * bottom[1]->count(1)));
    for (const Detection& each : found_.back()) each.AppendTo(&rows_);
  }
  if (!rows_.empty()) return;
  for (int64_t n = 0; n < shapes_.images; ++n) {
    Detection{n, -1, -1, {-1, -1, -1, -1}}.AppendTo(&rows_);
  }
}

void DetectionOutputLayer::Forward(const Blobs&, const Blobs& top) {
  context_.queue->Synchronize();
  top[0]->CopyDataFromHost(rows_.data());
  if (!files_) return;
  for (const std::vector<Detection>& image : found_) files_->Add(image);
}

const RegisterLayer<DetectionOutputLayer> detection_output_layer("DetectionOutput");

}  // namespace
}  // namespace millrace::inline contrib
