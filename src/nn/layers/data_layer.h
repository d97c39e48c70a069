// Batches of images and labels from the data wing.
//
//   top[0]  N x C x H x W images, transformed as transform_param says
//   top[1]  N labels (optional)
//
// All solvers' layers of one name and scope take their batches from one stream.
// The tops' memory is the prefetched batch itself, held until the next Forward:
// data() of the tops changes with every Forward.
#ifndef MILLRACE_NN_LAYERS_DATA_LAYER_H_
#define MILLRACE_NN_LAYERS_DATA_LAYER_H_

#include <memory>
#include <vector>

#include "data/prefetcher.h"
#include "nn/layer.h"

namespace millrace {

class DataLayer : public Layer {
 public:
  using Layer::Layer;
  ~DataLayer() override;

  Arity arity() const override { return {0, 0, 1, 2}; }
  std::set<std::string> fields() const override { return {"data_param", "transform_param"}; }
  // Opens the stream and reads one record, for the shape. Throws FieldError.
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // Throws what ended the data's threads, naming the record if there is one, and
  // boost::thread_interrupted once the data service has been stopped.
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}
  int64_t batch_size() const override { return param_.data_param().batch_size(); }

  // All batches of past Forwards have been trained on. Until the first call each
  // Forward marks the batches before it; from then on only this does, so that a
  // snapshot in the midst of an iteration repeats the whole iteration.
  void EndIteration() override;

 private:
  void MarkPast();

  std::shared_ptr<BatchStream> stream_;
  ImageSize image_;
  std::unique_ptr<Prefetcher> prefetcher_;
  ReadyBatch* current_ = nullptr;   // what the tops show
  std::vector<uint64_t> unmarked_;  // batches of past Forwards
  bool mark_in_forward_ = true;
};

}  // namespace millrace

#endif  // MILLRACE_NN_LAYERS_DATA_LAYER_H_
