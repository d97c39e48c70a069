#include "nn/boxes/box_nms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace millrace::inline nn {
namespace {

constexpr float kMinArea = 1e-5f;

bool IsBetter(float a, float b) { return std::isnan(b) ? false : std::isnan(a) || a > b; }

void Sort(std::span<const float> scores, std::vector<int>* indices) {
  std::stable_sort(indices->begin(), indices->end(),
                   [&](int a, int b) { return IsBetter(scores[a], scores[b]); });
}

void KeepFirst(int64_t count, std::vector<int>* indices) {
  if (count > -1 && count < static_cast<int64_t>(indices->size())) indices->resize(count);
}

bool Overlaps(const Box& box, std::span<const Box> boxes, const std::vector<int>& kept,
              float threshold) {
  return std::any_of(kept.begin(), kept.end(),
                     [&](int i) { return Overlap(box, boxes[i]) > threshold; });
}

}  // namespace

std::vector<int> BestFirst(std::span<const float> scores) {
  std::vector<int> indices(scores.size());
  std::iota(indices.begin(), indices.end(), 0);
  Sort(scores, &indices);
  return indices;
}

std::vector<int> SuppressBoxes(std::span<const Box> boxes, std::span<const float> scores,
                               const NmsRules& rules) {
  std::vector<int> indices;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > rules.least_score) indices.push_back(static_cast<int>(i));
  }
  Sort(scores, &indices);
  KeepFirst(rules.top_k, &indices);
  std::vector<int> kept;
  float threshold = rules.threshold;
  for (const int i : indices) {
    if (std::ssize(kept) == rules.keep) break;
    if (Overlaps(boxes[i], boxes, kept, threshold)) continue;
    kept.push_back(i);
    if (rules.eta < 1 && threshold > 0.5f) threshold *= rules.eta;
  }
  return kept;
}

std::vector<int> SuppressExamples(std::span<const Box> boxes, std::span<const float> scores,
                                  float threshold, int64_t top_k) {
  std::vector<int> indices = BestFirst(scores);
  KeepFirst(top_k, &indices);
  std::vector<int> kept;
  for (const int i : indices) {
    if (Area(boxes[i]) < kMinArea || Overlaps(boxes[i], boxes, kept, threshold)) continue;
    kept.push_back(i);
  }
  return kept;
}

}  // namespace millrace::inline nn
