#include "nn/boxes/box.h"

#include <algorithm>

namespace millrace {
namespace {

bool InOrder(const Box& box) { return !(box.xmax < box.xmin || box.ymax < box.ymin); }

float Limit(float value, float most) { return std::max(std::min(value, most), 0.0f); }

bool IsOutside(float share) { return share < 0 || share > 1; }

// Width and height of the intersection plus `edge`, over the areas.
float OverlapOf(const Box& a, const Box& b, float edge, float area_a, float area_b) {
  if (b.xmin > a.xmax || b.xmax < a.xmin || b.ymin > a.ymax || b.ymax < a.ymin) return 0;
  const float width = std::min(a.xmax, b.xmax) - std::max(a.xmin, b.xmin) + edge;
  const float height = std::min(a.ymax, b.ymax) - std::max(a.ymin, b.ymin) + edge;
  if (!(width > 0 && height > 0)) return 0;
  const float both = width * height;
  const float overlap = both / (area_a + area_b - both);
  return overlap > 0 ? overlap : 0;
}

}  // namespace

float Area(const Box& box) {
  return InOrder(box) ? (box.xmax - box.xmin) * (box.ymax - box.ymin) : 0;
}

float PixelArea(const Box& box) {
  return InOrder(box) ? (box.xmax - box.xmin + 1) * (box.ymax - box.ymin + 1) : 0;
}

float Overlap(const Box& a, const Box& b) { return OverlapOf(a, b, 0, Area(a), Area(b)); }

float PixelOverlap(const PixelBox& a, const PixelBox& b) {
  return OverlapOf(a.box, b.box, 1, a.area, b.area);
}

Box Clip(const Box& box, float width, float height) {
  return {Limit(box.xmin, width), Limit(box.ymin, height), Limit(box.xmax, width),
          Limit(box.ymax, height)};
}

bool CrossesImage(const Box& box) {
  return IsOutside(box.xmin) || IsOutside(box.ymin) || IsOutside(box.xmax) || IsOutside(box.ymax);
}

}  // namespace millrace
