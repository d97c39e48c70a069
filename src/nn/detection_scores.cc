#include "nn/detection_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace millrace::inline nn {
namespace {

bool IsBetter(float a, float b) { return std::isnan(b) ? false : std::isnan(a) || a > b; }

constexpr float kMinStep = 1e-6f;  // of recall

struct Curve {
  std::vector<float> precision, recall;  // by falling score
};

Curve CurveOf(std::span<const ScoredDetection> detections, int64_t objects) {
  std::vector<float> scores;
  for (const ScoredDetection& each : detections) scores.push_back(each.score);
  Curve curve;
  int64_t right = 0, all = 0;
  for (const int i : BestFirst(scores)) {
    right += detections[i].right;
    ++all;
    curve.precision.push_back(static_cast<float>(right) / static_cast<float>(all));
    curve.recall.push_back(static_cast<float>(right) / static_cast<float>(objects));
  }
  return curve;
}

float ElevenPoint(const Curve& curve) {
  float sum = 0;
  for (int j = 10; j >= 0; --j) {
    float most = 0;
    for (size_t i = 0; i < curve.recall.size(); ++i) {
      if (double{curve.recall[i]} >= j / 10.0) most = std::max(most, curve.precision[i]);
    }
    sum += most / 11;
  }
  return sum;
}

float Integral(const Curve& curve) {
  float sum = 0, last = 0;
  for (size_t i = 0; i < curve.recall.size(); ++i) {
    const float step = curve.recall[i] - last;
    if (step > kMinStep) sum += curve.precision[i] * step;
    last = curve.recall[i];
  }
  return sum;
}

float MaxIntegral(const Curve& curve) {
  float sum = 0, most = curve.precision.back();
  for (size_t i = curve.recall.size() - 1; i-- > 0;) {
    most = std::max(most, curve.precision[i]);
    const float step = curve.recall[i + 1] - curve.recall[i];
    if (step > kMinStep) sum += most * step;
  }
  return sum + curve.recall[0] * most;
}

}  // namespace

std::vector<int> BestFirst(std::span<const float> scores) {
  std::vector<int> indices(scores.size());
  std::iota(indices.begin(), indices.end(), 0);
  SortBestFirst(scores, &indices);
  return indices;
}

void SortBestFirst(std::span<const float> scores, std::vector<int>* indices) {
  std::stable_sort(indices->begin(), indices->end(),
                   [&](int a, int b) { return IsBetter(scores[a], scores[b]); });
}

ApVersion ApVersionOf(const std::string& name) {
  if (name == "11point") return ApVersion::k11Point;
  if (name == "MaxIntegral") return ApVersion::kMaxIntegral;
  if (name == "Integral") return ApVersion::kIntegral;
  throw FieldError("ap_version", "\"", name,
                   "\" given, expected \"11point\", \"MaxIntegral\" or \"Integral\"");
}

float AveragePrecision(std::span<const ScoredDetection> detections, int64_t objects,
                       ApVersion version) {
  if (detections.empty() || objects <= 0) return 0;
  const Curve curve = CurveOf(detections, objects);
  switch (version) {
    case ApVersion::k11Point:
      return ElevenPoint(curve);
    case ApVersion::kMaxIntegral:
      return MaxIntegral(curve);
    case ApVersion::kIntegral:
      return Integral(curve);
  }
  return 0;
}

void DetectionScores::Add(std::span<const float> rows) {
  for (size_t at = 0; at + kColumns <= rows.size(); at += kColumns) {
    const float* const row = rows.data() + at;
    const int label = static_cast<int>(row[1]);
    if (row[0] == -1) {
      objects_[label] += static_cast<int64_t>(row[2]);
    } else if (row[3] != 0 || row[4] != 0) {  // neither: of a difficult box
      detections_[label].push_back({row[2], row[3] != 0});
    }
  }
}

void DetectionScores::Add(const DetectionScores& other) {
  for (const auto& [label, count] : other.objects_) objects_[label] += count;
  for (const auto& [label, detections] : other.detections_) {
    std::vector<ScoredDetection>& own = detections_[label];
    own.insert(own.end(), detections.begin(), detections.end());
  }
}

std::vector<ClassPrecision> DetectionScores::Classes(ApVersion version) const {
  std::vector<ClassPrecision> classes;
  for (const auto& [label, count] : objects_) {
    const auto found = detections_.find(label);
    classes.push_back({label, found == detections_.end() ? std::nullopt
                                                         : std::optional(AveragePrecision(
                                                               found->second, count, version))});
  }
  return classes;
}

float DetectionScores::Mean(std::span<const ClassPrecision> classes) {
  if (classes.empty()) return 0;
  float sum = 0;
  for (const ClassPrecision& each : classes) sum += each.precision.value_or(0);
  return sum / static_cast<float>(classes.size());
}

}  // namespace millrace::inline nn
