// Compares detections with ground truth (SSD, Liu and others 2016). Bottoms: detections {1, 1,
// rows, 7} (contrib/detection/detection_files.h) and ground truth {1, 1, rows, 8}
// (contrib/detection/ground_truth.h).
//
// top {1, 1, rows, 5}: first one row per class but the background,
//   -1, label, number of ground truth boxes, -1, -1
// then one per detection, by image, label and falling score,
//   image, label, score, true positive, false positive
// A detection is a true positive if the box of its image and label that it overlaps most, by
// overlap_threshold or more, has none with a better score. Without evaluate_difficult_gt difficult
// boxes are not counted, and detections of them are neither true nor false. A test makes mean
// average precisions of these rows (nn/detection_scores.h).
//
// With a name_size_file overlaps are of pixels. It lists the images of the data in their order; the
// images of a batch are those up to the last one with a row.
//
// The host computes. From other devices the bottoms are copied to it.
#include <algorithm>
#include <map>
#include <vector>

#include "contrib/detection/boxes.h"
#include "contrib/detection/detection_files.h"
#include "contrib/detection/ground_truth.h"
#include "millrace/layer.h"
#include "nn/detection_scores.h"

namespace millrace::inline contrib {
namespace {

class DetectionEvaluateLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {2, 2, 1, 1}; }
  std::set<std::string> fields() const override { return {"detection_evaluate_param"}; }
  bool AllowBackward(int) const override { return false; }
  bool ReshapesInForward() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  // The first call shapes the top for the most rows; later ones compute them.
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  using Objects = std::map<int64_t, std::vector<GroundTruth>>;

  int background() const;
  int64_t Classes() const;  // without the background
  void Evaluate(const Blobs& bottom);
  void AddRow(float image, float label, float score, float right, float wrong);
  void AddCounts(const Objects& objects);
  // The detections of one image and label, by falling score.
  void AddDetections(std::vector<Detection> found, const std::vector<GroundTruth>& objects);
  PixelBox BoxOfImage(const Box& box, int64_t image) const;

  std::vector<NamedImage> images_;  // empty: overlaps are of shares
  size_t first_ = 0;                // in images_, of the batch
  size_t batch_ = 0;                // images of the batch
  bool shaped_ = false;
  std::vector<float> rows_;
};

constexpr int64_t kColumns = 5;

int DetectionEvaluateLayer::background() const {
  // Text cannot give -1, no background, but a number that is not a class means the same.
  return static_cast<int>(param_.detection_evaluate_param().background_label_id());
}

int64_t DetectionEvaluateLayer::Classes() const {
  const int64_t classes = param_.detection_evaluate_param().num_classes();
  return background() >= 0 && background() < classes ? classes - 1 : classes;
}

void DetectionEvaluateLayer::SetUp(const Blobs&, const Blobs&) {
  const caffe::DetectionEvaluateParameter& param = param_.detection_evaluate_param();
  if (param.num_classes() < 1) {
    throw FieldError("detection_evaluate_param.num_classes", param.num_classes(),
                     " given, expected at least 1");
  }
  if (!(param.overlap_threshold() > 0)) {
    throw FieldError("detection_evaluate_param.overlap_threshold", param.overlap_threshold(),
                     " given, expected more than 0");
  }
  if (param.has_name_size_file()) {
    images_ = ReadNamedImages(param.name_size_file(), "detection_evaluate_param.name_size_file");
  }
  if (param.has_resize_param()) {
    CheckResize(param.resize_param(), "detection_evaluate_param.resize_param");
  }
}

void DetectionEvaluateLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const Shape& shape = bottom[0]->shape();
  if (shape.size() != 4 || shape[0] != 1 || shape[1] != 1 || shape[3] != Detection::kColumns) {
    throw FieldError("bottom[0]", "has shape ", ShapeText(shape),
                     ", expected 1 1 rows 7, as DetectionOutput gives it");
  }
  CheckGroundTruthShape(*bottom[1], "bottom[1]");
  if (!shaped_) {
    shaped_ = true;
    top[0]->Reshape({1, 1, Classes() + shape[2], kColumns});
    return;
  }
  Evaluate(bottom);
  top[0]->Reshape({1, 1, static_cast<int64_t>(rows_.size()) / kColumns, kColumns});
}

void DetectionEvaluateLayer::AddRow(float image, float label, float score, float right,
                                    float wrong) {
  rows_.insert(rows_.end(), {image, label, score, right, wrong});
}

void DetectionEvaluateLayer::AddCounts(const Objects& objects) {
  const caffe::DetectionEvaluateParameter& param = param_.detection_evaluate_param();
  std::map<int, int> counts;
  for (const auto& [image, of_image] : objects) {
    for (const GroundTruth& each : of_image) {
      counts[each.label] += param.evaluate_difficult_gt() || !each.difficult;
    }
  }
  for (int c = 0; c < static_cast<int>(param.num_classes()); ++c) {
    if (c == background()) continue;
    AddRow(-1, static_cast<float>(c), static_cast<float>(counts[c]), -1, -1);
  }
}

PixelBox DetectionEvaluateLayer::BoxOfImage(const Box& box, int64_t image) const {
  const caffe::DetectionEvaluateParameter& param = param_.detection_evaluate_param();
  return InPixels(box, images_[(first_ + image) % images_.size()],
                  param.has_resize_param() ? &param.resize_param() : nullptr);
}

void DetectionEvaluateLayer::AddDetections(std::vector<Detection> found,
                                           const std::vector<GroundTruth>& objects) {
  const caffe::DetectionEvaluateParameter& param = param_.detection_evaluate_param();
  std::vector<float> scores;
  for (const Detection& each : found) scores.push_back(each.score);
  std::vector<bool> taken(objects.size());
  for (const int i : BestFirst(scores)) {
    const Detection& each = found[i];
    float most = -1;
    size_t best = 0;
    for (size_t j = 0; j < objects.size(); ++j) {
      if (objects[j].label != each.label) continue;
      const float overlap = images_.empty() ? Overlap(each.box, objects[j].box)
                                            : PixelOverlap(BoxOfImage(each.box, each.image),
                                                           BoxOfImage(objects[j].box, each.image));
      if (overlap > most) {
        most = overlap;
        best = j;
      }
    }
    bool right = false, counts = true;
    if (most >= param.overlap_threshold()) {
      counts = param.evaluate_difficult_gt() || !objects[best].difficult;
      right = counts && !taken[best];
      if (right) taken[best] = true;
    }
    AddRow(static_cast<float>(each.image), static_cast<float>(each.label), each.score,
           right ? 1.0f : 0.0f, counts && !right ? 1.0f : 0.0f);
  }
}

void DetectionEvaluateLayer::Evaluate(const Blobs& bottom) {
  std::vector<float> found_copy, truth_copy;
  const DetectionsOfImages found =
      ReadDetections(bottom[0]->DataOnHost(&found_copy), bottom[0]->dim(2), background());
  const int classes = static_cast<int>(param_.detection_evaluate_param().num_classes());
  const Objects objects = ReadGroundTruth(bottom[1]->DataOnHost(&truth_copy), bottom[1]->dim(2),
                                          {classes, background(), true, std::nullopt});
  rows_.clear();
  AddCounts(objects);
  static const std::vector<GroundTruth> kNone;
  for (const auto& [image, of_image] : found) {
    const auto there = objects.find(image);
    for (const auto& [label, detections] : of_image) {
      AddDetections(detections, there == objects.end() ? kNone : there->second);
    }
  }
  int64_t last = -1;
  if (!found.empty()) last = std::max(last, found.rbegin()->first);
  if (!objects.empty()) last = std::max(last, objects.rbegin()->first);
  batch_ = static_cast<size_t>(last + 1);
}

void DetectionEvaluateLayer::Forward(const Blobs&, const Blobs& top) {
  context_.queue->Synchronize();
  top[0]->CopyDataFromHost(rows_.data());
  if (!images_.empty()) first_ = (first_ + batch_) % images_.size();
}

const RegisterLayer<DetectionEvaluateLayer> detection_evaluate_layer("DetectionEvaluate");

}  // namespace
}  // namespace millrace::inline contrib
