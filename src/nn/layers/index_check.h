// Finds indices that are out of range, which only the device has read.
#ifndef MILLRACE_NN_LAYERS_INDEX_CHECK_H_
#define MILLRACE_NN_LAYERS_INDEX_CHECK_H_

#include <cstdint>
#include <string>

#include "millrace/blob.h"
#include "millrace/device.h"
#include "millrace/queue.h"

namespace millrace::inline nn {

// Used by the thread that uses the queue.
class IndexCheck {
 public:
  // Call before the passes.
  void Reserve(Queue& queue);
  // Enqueues the count of the values of index {count} that are not in [0, limit).
  void Enqueue(Queue& queue, int64_t limit, int64_t count, const float* index);
  // Whether the last Enqueue, whose work has completed, found any.
  bool found() const { return *invalid_on_host_.get<float>() > 0; }
  // Throws Error naming `layer` and the first index that is out of range. `indices` were those of
  // the last Enqueue, whose work has completed. Cheap if all are valid.
  void Check(const std::string& layer, int64_t limit, const Blob& indices) const;

 private:
  Buffer invalid_;          // a float: the number of invalid indices
  Buffer invalid_on_host_;  // the same in staging memory
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INDEX_CHECK_H_
