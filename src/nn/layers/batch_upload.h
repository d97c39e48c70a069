// Copies batches to a device on a queue of their own: the next batch travels while the net computes
// on the present one.
#ifndef MILLRACE_NN_LAYERS_BATCH_UPLOAD_H_
#define MILLRACE_NN_LAYERS_BATCH_UPLOAD_H_

#include <memory>
#include <vector>

#include "data/prefetcher.h"
#include "millrace/layer.h"

namespace millrace::inline nn {

// Batches arrive in buffers beside the tops. Once the net's earlier work no longer needs the tops,
// a copy within the device's memory, which takes little time, brings the values there, or a kernel
// computes them from images that arrived as bytes. Not thread-safe.
class BatchUpload {
 public:
  // `net` is the queue of the net, whose device is not the host. It outlives this object. `rule`:
  // of batches of bytes, if there are any; or null. Throws OutOfMemory, or Error if the device
  // has failed.
  BatchUpload(Queue* net, const PixelRule* rule);
  BatchUpload(const BatchUpload&) = delete;
  BatchUpload& operator=(const BatchUpload&) = delete;

  // Enqueues the copy of `batch` to the device. The batch must not change until the event that it
  // returns is reached. Throws OutOfMemory.
  Event Start(const ReadyBatch& batch);
  // Enqueues, on the net's queue, the work that writes the values of the last batch that was
  // started to the tops.
  void Finish(const Blobs& top);

 private:
  void ComputeValues(const PixelRule& rule, Blob* top);

  Queue& net_;
  Buffer mean_;                        // PixelRule::mean
  std::vector<Buffer> buffers_;        // one for each top
  const PixelRule* pixels_ = nullptr;  // of the last batch that was started
  Event taken_;                        // the values of the buffers are in the tops
  Event uploaded_;                     // the last batch that was started has arrived in the buffers
  // The last member: its end waits for the work that uses the buffers.
  const std::unique_ptr<Queue> queue_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BATCH_UPLOAD_H_
