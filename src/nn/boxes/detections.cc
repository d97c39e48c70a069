#include "nn/boxes/detections.h"

#include "base/error.h"

namespace millrace::inline nn {
namespace {

int64_t Whole(float value, int64_t row, const char* what) {
  if (!(value > -1e9f && value < 1e9f)) {
    throw Error("detection row ", row, ": ", what, " ", value, " is not a whole number");
  }
  return static_cast<int64_t>(value);
}

}  // namespace

void Detection::AppendTo(std::vector<float>* values) const {
  values->push_back(static_cast<float>(image));
  values->push_back(static_cast<float>(label));
  values->push_back(score);
  const auto edges = ValuesOf(box);
  values->insert(values->end(), edges.begin(), edges.end());
}

DetectionsOfImages ReadDetections(const float* values, int64_t rows, int background) {
  DetectionsOfImages images;
  for (int64_t i = 0; i < rows; ++i) {
    const float* const row = values + Detection::kColumns * i;
    const int64_t image = Whole(row[0], i, "image");
    const int64_t label = Whole(row[1], i, "label");
    if (image == -1 || label == -1) continue;
    if (label == background) {
      throw Error("detection row ", i, ": label ", label,
                  " is that of the background (background_label_id)");
    }
    images[image][static_cast<int>(label)].push_back(
        {image, static_cast<int>(label), row[2], BoxOf(row + 3)});
  }
  return images;
}

}  // namespace millrace::inline nn
