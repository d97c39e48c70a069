#include "contrib/detection/ground_truth.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "contrib/detection/detection_files.h"

namespace millrace::inline contrib {
namespace {

constexpr int64_t kTruthColumns = 8;

}  // namespace

void CheckGroundTruthShape(const Blob& blob, const char* field) {
  const Shape& shape = blob.shape();
  if (shape.size() == 4 && shape[0] == 1 && shape[1] == 1 && shape[3] == kTruthColumns) return;
  throw FieldError(field, "has shape ", ShapeText(shape),
                   ", expected 1 1 rows 8, a row for each ground truth box");
}

std::map<int64_t, std::vector<GroundTruth>> ReadGroundTruth(const float* values, int64_t rows,
                                                            const GroundTruthRules& rules) {
  std::map<int64_t, std::vector<GroundTruth>> images;
  for (int64_t i = 0; i < rows; ++i) {
    const float* const row = values + kTruthColumns * i;
    const int64_t image = WholeNumber(row[0], "ground truth", i, "image");
    if (image == -1) continue;
    if (image < 0 || image >= rules.batch.value_or(std::numeric_limits<int64_t>::max())) {
      throw Error("ground truth row ", i, ": image ", image, ", expected ",
                  rules.batch ? StrCat("0 to ", *rules.batch - 1) : "a number from 0 on",
                  ", or -1 for no box");
    }
    const int64_t label = WholeNumber(row[1], "ground truth", i, "label");
    if (label == rules.background) {
      throw Error("ground truth row ", i, ": label ", label,
                  " is that of the background (background_label_id)");
    }
    if (label < 0 || label >= rules.classes) {
      throw Error("ground truth row ", i, ": label ", label,
                  ", expected less than num_classes: ", rules.classes);
    }
    const bool difficult = row[7] != 0;
    if (difficult && !rules.with_difficult) continue;
    images[image].push_back({static_cast<int>(label), BoxOf(row + 3), difficult});
  }
  return images;
}

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

}  // namespace millrace::inline contrib
