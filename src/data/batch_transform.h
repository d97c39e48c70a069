// How a layer turns the batches of its stream into values of its tops.
#ifndef MILLRACE_DATA_BATCH_TRANSFORM_H_
#define MILLRACE_DATA_BATCH_TRANSFORM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/record_transform.h"
#include "millrace/blob.h"
#include "millrace/data_source.h"

namespace millrace::inline data {

// Used by one thread at a time, batch after batch: Add for each of its records, shapes, Write.
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;

  // Whether the shapes of the tops may be other ones in every batch.
  virtual bool varies() const = 0;
  // The shapes of the tops when a net is built; those of every batch if they do not vary.
  virtual const std::vector<Shape>& first_shapes() const = 0;

  // Takes the next record of the batch, which is item `item` of the stream. The record and `source`
  // exist until Write. The values depend only on the records, the items, and the settings. Throws
  // Error naming `source`, the path of the record's source, and the record.
  virtual void Add(const std::string& source, const RecordView& record, uint64_t item) = 0;
  // The shapes of the tops for the records that were added.
  virtual const std::vector<Shape>& shapes() const = 0;
  // Writes their values and forgets the records. Throws as Add does.
  virtual void Write(float* const* tops) = 0;

  // How a device computes the values of the first top from bytes, the same for every batch; exists
  // as long as this object. Null: it cannot.
  virtual const PixelRule* pixel_rule() const { return nullptr; }
  // If there is such a rule: as Write, but writes pixel_rule()->bytes() bytes to tops[0], as the
  // rule describes them. Returns false if a record does not hold bytes: then the batch has to be
  // written by Write.
  virtual bool WritePixels(float* const* tops) {
    (void)tops;
    return false;
  }
};

// Batches of records that have values of one shape in each top, or of one record whose transform
// varies().
std::unique_ptr<BatchTransform> PerRecord(std::unique_ptr<RecordTransform> transform,
                                          uint64_t batch_size);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_BATCH_TRANSFORM_H_
