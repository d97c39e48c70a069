// One layer with blobs of its own, as a net would run it.
#ifndef MILLRACE_TEST_NN_LAYER_RUNNER_H_
#define MILLRACE_TEST_NN_LAYER_RUNNER_H_

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "nn/layer.h"
#include "test/support/blob_values.h"
#include "test/support/gradient_checker.h"
#include "test/support/support.h"

namespace millrace::test {

class LayerRunner {
 public:
  // `prototxt` is the inside of a layer { } block.
  explicit LayerRunner(const std::string& prototxt, caffe::Phase phase = caffe::TRAIN,
                       DeviceType device = DeviceType::kCpu);

  // ---- Before SetUp ----
  // `order` is how the blob comes; SetUp gives it the order that the layer wants.
  void AddBottom(const Shape& shape, const Array& values, Layout order = Layout::kPlain);
  LayerContext& context() { return context_; }

  // Creates the layer and shapes the tops. Throws what the layer throws.
  void SetUp(int tops = 1);
  // The same with top 0 being bottom 0.
  void SetUpInPlace();

  // ---- After SetUp ----
  Layer& layer() { return *layer_; }
  Blob& bottom(int i = 0) { return *bottom_[i]; }
  Blob& top(int i = 0) { return *top_[i]; }
  const Blobs& bottoms() const { return bottom_; }
  const Blobs& tops() const { return top_; }
  Blob& param(int i) { return *layer_->params()[i].blob; }
  void set_pass(uint64_t pass) { pass_ = pass; }

  // Another shape for bottom 0, then Reshape.
  void Reshape(const Shape& shape, const Array& values);
  void Forward() { layer_->Forward(bottom_, top_); }
  // top 0's values after Forward.
  Array Output();
  // Backward with dE/dtop[0] = `top_diff`, to all bottoms that allow it.
  void Backward(const Array& top_diff);
  // "" or a complaint.
  std::string CheckGradients(GradientCheck check = {});

 private:
  void Create();

  caffe::LayerParameter param_;
  DeviceType device_;
  LayerContext context_;
  Scratchpad scratch_;
  uint64_t pass_ = 1;
  std::unique_ptr<Layer> layer_;
  std::deque<Blob> blobs_;
  Blobs bottom_, top_;
  std::vector<Array> values_;
};

// Runs `body` with a set-up layer for each order of memory in which the layer
// takes bottom 0 (plain `shape` and `values`), the net preferring each order in
// turn. Returns the orders of bottom 0.
std::set<Layout> ForEachLayout(const std::string& prototxt, const Shape& shape, const Array& values,
                               const std::function<void(LayerRunner&)>& body);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NN_LAYER_RUNNER_H_
