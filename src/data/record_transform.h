// How a layer turns the records of its stream into values of its tops.
#ifndef MILLRACE_DATA_RECORD_TRANSFORM_H_
#define MILLRACE_DATA_RECORD_TRANSFORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/images/pixel_rule.h"
#include "millrace/blob.h"
#include "millrace/data_source.h"

namespace millrace::inline data {

// Used by one thread at a time.
class RecordTransform {
 public:
  virtual ~RecordTransform() = default;

  // For each top, the shape of one record's values: the top's shape without its first axis.
  virtual const std::vector<Shape>& shapes() const = 0;

  // Whether records may have shapes of their own. shapes() are those of the first record, and after
  // Read those of that record. Only for batches of one record.
  virtual bool varies() const { return false; }
  // If shapes vary, called with each record before Apply. Throws as Apply does.
  virtual void Read(const std::string& source, const RecordView& record, uint64_t item) {
    (void)source, (void)record, (void)item;
  }

  // Writes the values of `record`, which is item `item` of the stream, to tops[i], which has
  // ShapeCount(shapes()[i]) floats. The result depends only on the record, the item, and the
  // settings. Throws Error naming `source`, the path of the record's source, and the record.
  virtual void Apply(const std::string& source, const RecordView& record, uint64_t item,
                     float* const* tops) = 0;

  // How a device computes the values of a record's first top from bytes. None: it cannot.
  virtual std::optional<PixelRule> pixel_rule() const { return {}; }
  // If there is such a rule: writes the record's bytes to `pixels`, and `choice`, in place of the
  // values of the first top, and the values of the others to tops[1..]. Returns false if the record
  // does not hold bytes: what was written means nothing. Throws as Apply does.
  virtual bool ApplyPixels(const std::string& source, const RecordView& record, uint64_t item,
                           uint8_t* pixels, TransformChoice* choice, float* const* tops) {
    (void)source, (void)record, (void)item, (void)pixels, (void)choice, (void)tops;
    return false;
  }
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_RECORD_TRANSFORM_H_
