// Base of the layers whose tops are batches of a stream of records (data/stream_options.h).
//
// Layers with the same name and scope, of all solvers, take their batches from one stream. Batches
// are prefetched into staging memory, and the layer holds its batch until the next Forward. On the
// host, the tops use the batch's memory, so that data() of the tops changes with every Forward. On
// other devices, Forward enqueues copies of the batch to the tops. One class serves every device.
#ifndef MILLRACE_NN_LAYERS_BATCH_DATA_LAYER_H_
#define MILLRACE_NN_LAYERS_BATCH_DATA_LAYER_H_

#include <memory>
#include <vector>

#include "data/batch_stream.h"
#include "data/prefetcher.h"
#include "data/record_transform.h"
#include "millrace/layer.h"

namespace millrace {

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

  // Marks the batches of all past Forwards as consumed. Until the first call, each Forward marks
  // the batches before it. From then on only EndIteration marks batches, so that after a snapshot
  // in the middle of an iteration the whole iteration is repeated.
  void EndIteration() override;

 protected:
  // What makes values of the records of `stream`, with a shape for each top at least. Throws
  // FieldError.
  virtual std::unique_ptr<RecordTransform> MakeTransform(const BatchStream& stream) = 0;

 private:
  void MarkPast();

  std::shared_ptr<BatchStream> stream_;
  std::vector<Shape> shapes_;  // of the tops, for one record
  std::unique_ptr<Prefetcher> prefetcher_;
  ReadyBatch* current_ = nullptr;   // the batch whose values the tops have
  Event copied_;                    // of current_ to the device
  std::vector<uint64_t> unmarked_;  // batches of past Forwards, not marked as consumed yet
  bool mark_in_forward_ = true;
};

}  // namespace millrace

#endif  // MILLRACE_NN_LAYERS_BATCH_DATA_LAYER_H_
