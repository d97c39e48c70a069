#include "contrib/annotated/object.h"

namespace millrace::inline contrib {

float CoverageOf(const Box& box, const Box& by) {
  const float common = Area(Intersection(box, by));
  return common > 0 ? common / Area(box) : 0;
}

bool Project(const Box& frame, const Box& box, Box* projected) {
  const bool meet = box.xmin < frame.xmax && box.xmax > frame.xmin && box.ymin < frame.ymax &&
                    box.ymax > frame.ymin;
  if (!meet) return false;
  const float width = frame.xmax - frame.xmin, height = frame.ymax - frame.ymin;
  *projected = Clip({(box.xmin - frame.xmin) / width, (box.ymin - frame.ymin) / height,
                     (box.xmax - frame.xmin) / width, (box.ymax - frame.ymin) / height});
  return Area(*projected) > 0;
}

bool MeetsConstraint(const caffe::EmitConstraint& constraint, const Box& frame, const Box& box) {
  if (constraint.emit_type() == caffe::EmitConstraint::MIN_OVERLAP) {
    return CoverageOf(box, frame) > constraint.emit_overlap();
  }
  const float x = (box.xmin + box.xmax) / 2, y = (box.ymin + box.ymax) / 2;
  return x >= frame.xmin && x <= frame.xmax && y >= frame.ymin && y <= frame.ymax;
}

}  // namespace millrace::inline contrib
