#include "contrib/detection/boxes.h"

#include <algorithm>

#include "nn/detection_scores.h"

namespace millrace::inline contrib {
namespace {

constexpr float kMinArea = 1e-5f;

void KeepFirst(int64_t count, std::vector<int>* indices) {
  if (count > -1 && count < static_cast<int64_t>(indices->size())) indices->resize(count);
}

bool Overlaps(const Box& box, std::span<const Box> boxes, const std::vector<int>& kept,
              float threshold) {
  return std::any_of(kept.begin(), kept.end(),
                     [&](int i) { return Overlap(box, boxes[i]) > threshold; });
}

}  // namespace

std::vector<int> SuppressBoxes(std::span<const Box> boxes, std::span<const float> scores,
                               const NmsRules& rules) {
  std::vector<int> indices;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > rules.min_score) indices.push_back(static_cast<int>(i));
  }
  SortBestFirst(scores, &indices);
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

}  // namespace millrace::inline contrib
