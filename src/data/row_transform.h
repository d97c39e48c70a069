// Records that are rows of floats, top after top (data/hdf5/hdf5_source.h), to the tops: copies.
#ifndef MILLRACE_DATA_ROW_TRANSFORM_H_
#define MILLRACE_DATA_ROW_TRANSFORM_H_

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "data/record_transform.h"

namespace millrace::inline data {

// Copies the floats of a row to the tops of these shapes, one after the other.
inline void CopyRow(const char* row, const std::vector<Shape>& shapes, float* const* tops) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    const size_t bytes = ShapeCount(shapes[i]) * sizeof(float);
    memcpy(tops[i], row, bytes);
    row += bytes;
  }
}

class RowTransform : public RecordTransform {
 public:
  explicit RowTransform(std::vector<Shape> shapes) : shapes_(std::move(shapes)) {}

  const std::vector<Shape>& shapes() const override { return shapes_; }
  void Apply(const std::string&, const RecordView& record, uint64_t, float* const* tops) override {
    CopyRow(record.value.data(), shapes_, tops);
  }

 private:
  const std::vector<Shape> shapes_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_ROW_TRANSFORM_H_
