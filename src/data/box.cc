#include "data/box.h"

#include <algorithm>

namespace millrace::inline data {
namespace {

bool InOrder(const Box& box) { return !(box.xmax < box.xmin || box.ymax < box.ymin); }

bool AreApart(const Box& a, const Box& b) {
  return b.xmin > a.xmax || b.xmax < a.xmin || b.ymin > a.ymax || b.ymax < a.ymin;
}

Box Common(const Box& a, const Box& b) {
  return {std::max(a.xmin, b.xmin), std::max(a.ymin, b.ymin), std::min(a.xmax, b.xmax),
          std::min(a.ymax, b.ymax)};
}

float Limit(float value, float most) { return std::max(std::min(value, most), 0.0f); }

// Width and height of the intersection plus `edge`, over the areas.
float OverlapOf(const Box& a, const Box& b, float edge, float area_a, float area_b) {
  if (AreApart(a, b)) return 0;
  const Box common = Common(a, b);
  const float width = common.xmax - common.xmin + edge;
  const float height = common.ymax - common.ymin + edge;
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

Box Intersection(const Box& a, const Box& b) { return AreApart(a, b) ? Box() : Common(a, b); }

float Overlap(const Box& a, const Box& b) { return OverlapOf(a, b, 0, Area(a), Area(b)); }

float PixelOverlap(const PixelBox& a, const PixelBox& b) {
  return OverlapOf(a.box, b.box, 1, a.area, b.area);
}

Box Clip(const Box& box, float width, float height) {
  return {Limit(box.xmin, width), Limit(box.ymin, height), Limit(box.xmax, width),
          Limit(box.ymax, height)};
}

}  // namespace millrace::inline data
