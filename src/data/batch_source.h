// A source of whole batches that another program has decoded and transformed, in an order of its
// own. Each of its records is a batch: the values of all tops, one after the other.
#ifndef MILLRACE_DATA_BATCH_SOURCE_H_
#define MILLRACE_DATA_BATCH_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/blob.h"
#include "millrace/data_source.h"

namespace millrace::inline data {

// Identifies the sequence of batches that the nets of one process draw (data/batch_sequence.h). A
// snapshot stores it in StreamPosition::records, where other sources have their number of records,
// which is smaller than kFirstSequenceId.
inline constexpr uint64_t kFirstSequenceId = uint64_t{1} << 63;

// Record n, for any n, is batch n of the sequence; RecordReader::At(n) may wait. Thread-safe.
class BatchSource : public DataSource {
 public:
  // The shapes of the tops, the first axis of which is batch_size().
  virtual const std::vector<Shape>& shapes() const = 0;
  virtual uint64_t batch_size() const = 0;
  // The transform_param of the values, as text on one line.
  virtual const std::string& transform() const = 0;

  // Called before the first reader is made: `layer` takes the batches of sequence `id`. `resumed`:
  // a snapshot has a position in it. Later calls change nothing. Throws Error.
  virtual void Begin(const std::string& layer, uint64_t id, bool resumed) = 0;
  // A net has trained on batch `number`.
  virtual void MarkConsumed(uint64_t number) = 0;
};

// The source of whole batches among `sources`, of which it is the only one; null if there is none.
inline BatchSource* BatchSourceOf(const std::vector<std::shared_ptr<DataSource>>& sources) {
  return sources.size() == 1 ? dynamic_cast<BatchSource*>(sources[0].get()) : nullptr;
}

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_BATCH_SOURCE_H_
