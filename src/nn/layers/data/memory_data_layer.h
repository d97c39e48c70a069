// Batches from arrays that the program gives (Net::SetMemoryData, Session::SetMemoryData):
//
//   top[0]  N x C x H x W values, as batch_size, channels, height and width say
//   top[1]  N labels
//
// Batch after batch of the arrays, then from their start again. Without arrays, Forward fails.
#ifndef MILLRACE_NN_LAYERS_DATA_MEMORY_DATA_LAYER_H_
#define MILLRACE_NN_LAYERS_DATA_MEMORY_DATA_LAYER_H_

#include <span>
#include <vector>

#include "millrace/layer.h"

namespace millrace::inline nn {

// Runs on every device: batches are copied from staging memory.
class MemoryDataLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {0, 0, 2, 2}; }
  std::set<std::string> fields() const override { return {"memory_data_param", "transform_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  // Throws Error if there are no arrays.
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs&, const std::vector<bool>&, const Blobs&) override {}
  int64_t batch_size() const override { return param_.memory_data_param().batch_size(); }

  // Copies the values of a multiple of batch_size examples and one label for each; the next batch
  // is their first. Values are not transformed, as in Caffe. Throws Error if a size does not fit.
  void SetData(std::span<const float> values, std::span<const float> labels);
  // The same for datums, which are decoded and transformed according to transform_param as those of
  // a Data layer; the results must be C x H x W. Random choices are keyed by the number of the
  // datum among all that the layer was given.
  void SetData(std::span<const caffe::Datum> datums);

 private:
  int64_t image_count() const;
  void CheckExamples(int64_t examples, const char* what) const;

  // In staging memory.
  struct Examples {
    Buffer values, labels;
    int64_t count = 0;
  };
  Examples MakeExamples(size_t count) const;

  Examples given_;             // not used yet; count is 0: none
  Examples used_;              // the tops may refer to them
  int64_t position_ = 0;       // of the next batch in used_
  uint64_t datums_given_ = 0;  // by earlier calls
  Event copied_;               // of the last batch to the device
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DATA_MEMORY_DATA_LAYER_H_
