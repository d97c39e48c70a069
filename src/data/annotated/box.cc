#include "data/annotated/box.h"

#include <algorithm>

namespace millrace {

float AreaOf(const Box& box) {
  if (box.xmax < box.xmin || box.ymax < box.ymin) return 0;
  return (box.xmax - box.xmin) * (box.ymax - box.ymin);
}

Box Intersection(const Box& a, const Box& b) {
  if (b.xmin > a.xmax || b.xmax < a.xmin || b.ymin > a.ymax || b.ymax < a.ymin) {
    return {0, 0, 0, 0};
  }
  return {std::max(a.xmin, b.xmin), std::max(a.ymin, b.ymin), std::min(a.xmax, b.xmax),
          std::min(a.ymax, b.ymax)};
}

float JaccardOverlap(const Box& a, const Box& b) {
  const float common = AreaOf(Intersection(a, b));
  return common > 0 ? common / (AreaOf(a) + AreaOf(b) - common) : 0;
}

float CoverageOf(const Box& box, const Box& by) {
  const float common = AreaOf(Intersection(box, by));
  return common > 0 ? common / AreaOf(box) : 0;
}

Box Clipped(const Box& box) {
  const auto clip = [](float value) { return std::max(std::min(value, 1.0f), 0.0f); };
  return {clip(box.xmin), clip(box.ymin), clip(box.xmax), clip(box.ymax)};
}

bool Project(const Box& frame, const Box& box, Box* projected) {
  const bool meet = box.xmin < frame.xmax && box.xmax > frame.xmin && box.ymin < frame.ymax &&
                    box.ymax > frame.ymin;
  if (!meet) return false;
  const float width = frame.xmax - frame.xmin, height = frame.ymax - frame.ymin;
  *projected = Clipped({(box.xmin - frame.xmin) / width, (box.ymin - frame.ymin) / height,
                        (box.xmax - frame.xmin) / width, (box.ymax - frame.ymin) / height});
  return AreaOf(*projected) > 0;
}

bool MeetsConstraint(const caffe::EmitConstraint& constraint, const Box& frame, const Box& box) {
  if (constraint.emit_type() == caffe::EmitConstraint::MIN_OVERLAP) {
    return CoverageOf(box, frame) > constraint.emit_overlap();
  }
  const float x = (box.xmin + box.xmax) / 2, y = (box.ymin + box.ymax) / 2;
  return x >= frame.xmin && x <= frame.xmax && y >= frame.ymin && y <= frame.ymax;
}

}  // namespace millrace
