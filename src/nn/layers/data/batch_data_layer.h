// The base of data layers, and the upload of its batches to a device.
#ifndef MILLRACE_NN_LAYERS_DATA_BATCH_DATA_LAYER_H_
#define MILLRACE_NN_LAYERS_DATA_BATCH_DATA_LAYER_H_

#include <memory>
#include <vector>

#include "data/batch_stream.h"
#include "data/batch_transform.h"
#include "data/prefetcher.h"
#include "millrace/layer.h"

namespace millrace::inline nn {

// Copies batches to a device on a queue of their own: the next batch travels while the net computes
// on the present one.

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

// Base of the layers whose tops are batches of a stream of records (data/stream_options.h).
//
// Layers with the same name and scope, of all solvers, take their batches from one stream. Batches
// are prefetched into staging memory, and the layer holds its batch until the next Forward. On the
// host, the tops use the batch's memory, so that data() of the tops changes with every Forward. On
// other devices, Forward enqueues copies of the batch to the tops, or computes them there of images
// that travel as bytes (nn/gpu/gpu_settings.h). One class serves every device.
// If the tops have other shapes in every batch, Reshape takes the batch that the next Forward uses.
class BatchDataLayer : public Layer {
 public:
  using Layer::Layer;
  ~BatchDataLayer() override;

  // Opens the stream and reads one record to get the shape. Throws FieldError.
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // Throws the error that ended a data thread, naming the record if there is one, and
  // boost::thread_interrupted after the data service has been stopped.
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}
  int64_t batch_size() const override;
  bool ReshapesInForward() const override { return varies_; }

  // Marks the batches of all past Forwards as consumed. Until the first call, each Forward marks
  // the batches before it. From then on only EndIteration marks batches, so that after a snapshot
  // in the middle of an iteration the whole iteration is repeated.
  void EndIteration() override;

  // For programs that make batches without a net, after SetUp. A transform of its own for another
  // thread. Throws FieldError.
  std::unique_ptr<BatchTransform> NewTransform() { return MakeTransform(*stream_); }
  const BatchStream& stream() const { return *stream_; }

 protected:
  // What makes values of the records of `stream`, with a shape for each top at least. Throws
  // FieldError.
  virtual std::unique_ptr<BatchTransform> MakeTransform(const BatchStream& stream) = 0;

 private:
  void MarkPast();
  // Makes the next batch the current one, and gives the tops its shapes.
  void Take(const Blobs& top);
  // Gives the batch, which is current_, back once it has been copied to the device.
  void Recycle(ReadyBatch** batch);
  // Brings the values of the current batch into the tops on a device.
  void CopyToTops(const Blobs& top);

  std::shared_ptr<BatchStream> stream_;
  std::vector<Shape> first_shapes_;  // of the tops, before the first batch
  bool varies_ = false;              // the tops have other shapes in every batch
  bool shaped_ = false;              // with first_shapes_
  bool taken_ = false;               // the current batch was taken by Reshape
  std::unique_ptr<Prefetcher> prefetcher_;
  ReadyBatch* current_ = nullptr;  // the batch whose values the tops have
  ReadyBatch* ahead_ = nullptr;    // the next one, on its way to the device; null: not yet
  Event copied_, ahead_copied_;    // these batches have left the host's memory
  bool started_ = false;           // the copy of current_ to the device was started ahead
  // Ends before prefetcher_, whose memory it reads. Null: on the host, or shapes vary.
  std::unique_ptr<BatchUpload> upload_;
  std::vector<uint64_t> unmarked_;  // batches of past Forwards, not marked as consumed yet
  bool mark_in_forward_ = true;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DATA_BATCH_DATA_LAYER_H_
