#include "nn/boxes/box_match.h"

#include <algorithm>

namespace millrace::inline nn {
namespace {

constexpr float kMinOverlap = 1e-6f;

struct Pair {
  int box, object;
  float overlap;
};

}  // namespace

BoxMatches MatchBoxes(std::span<const GroundTruth> objects, std::span<const Box> boxes,
                      std::optional<int> label, const MatchRules& rules) {
  BoxMatches matches;
  matches.object.assign(boxes.size(), BoxMatches::kNone);
  matches.overlap.assign(boxes.size(), 0);
  std::vector<int> meant;
  for (size_t j = 0; j < objects.size(); ++j) {
    if (!label || objects[j].label == *label) meant.push_back(static_cast<int>(j));
  }
  if (meant.empty()) return matches;

  std::vector<Pair> pairs;  // by box, then by object
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (rules.ignore_crossing && CrossesImage(boxes[i])) {
      matches.object[i] = BoxMatches::kIgnored;
      continue;
    }
    for (const int j : meant) {
      const float overlap = Overlap(boxes[i], objects[j].box);
      if (!(overlap > kMinOverlap)) continue;
      matches.overlap[i] = std::max(matches.overlap[i], overlap);
      pairs.push_back({static_cast<int>(i), j, overlap});
    }
  }

  std::vector<Pair> falling = pairs;
  std::stable_sort(falling.begin(), falling.end(),
                   [](const Pair& a, const Pair& b) { return a.overlap > b.overlap; });
  std::vector<bool> found(objects.size());
  for (const Pair& pair : falling) {
    if (found[pair.object] || matches.object[pair.box] != BoxMatches::kNone) continue;
    found[pair.object] = true;
    matches.object[pair.box] = pair.object;
  }
  if (rules.type == caffe::MultiBoxLossParameter::BIPARTITE) return matches;

  for (size_t begin = 0, end = 0; begin < pairs.size(); begin = end) {
    const int box = pairs[begin].box;
    const Pair* best = nullptr;
    for (; end < pairs.size() && pairs[end].box == box; ++end) {
      if (pairs[end].overlap >= rules.threshold &&
          (best == nullptr || pairs[end].overlap > best->overlap)) {
        best = &pairs[end];
      }
    }
    if (best != nullptr && matches.object[box] == BoxMatches::kNone) {
      matches.object[box] = best->object;
    }
  }
  return matches;
}

}  // namespace millrace::inline nn
