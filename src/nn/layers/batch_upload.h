// Copies batches to a device on a queue of their own: the next batch travels while the net computes
// on the present one.
#ifndef MILLRACE_NN_LAYERS_BATCH_UPLOAD_H_
#define MILLRACE_NN_LAYERS_BATCH_UPLOAD_H_

#include <memory>
#include <vector>

#include "data/prefetcher.h"
#include "millrace/layer.h"

namespace millrace::inline nn {

// A batch arrives as a whole in a buffer beside the tops. Once the net's earlier work no longer
// needs the tops, a copy within the device's memory, which takes little time, brings the values
// there, or a kernel computes them from images that arrived as bytes. All layers of a net share one
// queue for their copies. Not thread-safe.
class BatchUpload {
 public:
  // `net` is the queue of the net, whose device is not the host; it outlives the calls of this
  // object. `rule`: of batches of bytes, if there are any; or null. Throws OutOfMemory, or Error if
  // the device has failed.
  BatchUpload(Queue* net, const PixelRule* rule);
  // Waits until the device no longer uses the batch and the buffer.
  ~BatchUpload();
  BatchUpload(const BatchUpload&) = delete;
  BatchUpload& operator=(const BatchUpload&) = delete;

  // Enqueues the copy of `batch` to the device. The batch must not change until the event that it
  // returns is reached. Throws OutOfMemory.
  Event Start(const ReadyBatch& batch);
  // Enqueues, on the net's queue, the work that writes the values of `batch`, the last that was
  // started, to the tops.
  void Finish(const ReadyBatch& batch, const Blobs& top);

 private:
  void ComputeValues(const PixelRule& rule, Blob* top);

  Queue& net_;
  Queue& queue_;
  Buffer mean_;     // PixelRule::mean
  Buffer arrived_;  // the last batch that was started
  Event taken_;     // its values are in the tops
  Event uploaded_;  // it has arrived
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BATCH_UPLOAD_H_
