// Runs a single layer, with its own blobs, as a net does.
#ifndef MILLRACE_TEST_NN_LAYER_RUNNER_H_
#define MILLRACE_TEST_NN_LAYER_RUNNER_H_

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "millrace/layer.h"
#include "test/support/blob_values.h"
#include "test/support/gradient_checker.h"
#include "test/support/support.h"

namespace millrace::test {

class LayerRunner {
 public:
  // `prototxt` is the content of a layer { } block.
  explicit LayerRunner(const std::string& prototxt, caffe::Phase phase = caffe::TRAIN);

  // ---- Before SetUp ----
  // `order` is the memory layout of the blob; SetUp converts it to the layout that the layer needs.
  void AddBottom(const Shape& shape, const Array& values, Layout order = Layout::kPlain);
  LayerContext& context() { return context_; }

  // Creates the layer and shapes the tops. Throws the layer's exceptions.
  void SetUp(int tops = 1);
  // Like SetUp, with bottom 0 as top 0.
  void SetUpInPlace();

  // ---- After SetUp ----
  Layer& layer() { return *layer_; }
  Blob& bottom(int i = 0) { return *bottom_[i]; }
  Blob& top(int i = 0) { return *top_[i]; }
  const Blobs& bottoms() const { return bottom_; }
  const Blobs& tops() const { return top_; }
  Blob& param(int i) { return *layer_->params()[i].blob; }
  void set_pass(uint64_t pass) { pass_ = pass; }

  // Changes the shape of bottom 0 and calls Reshape.
  void Reshape(const Shape& shape, const Array& values);
  void Forward() { layer_->Forward(bottom_, top_); }
  // Values of top 0 after Forward.
  Array Output();
  // Runs Backward with dE/dtop[0] = `top_diff`, to all bottoms that support it.
  void Backward(const Array& top_diff);
  // Returns "" or an error line, as test::CheckGradients.
  std::string CheckGradients(GradientCheck check = {});

 private:
  void Create();

  caffe::LayerParameter param_;
  LayerContext context_;
  Scratchpad scratch_;
  uint64_t pass_ = 1;
  std::unique_ptr<Layer> layer_;
  std::deque<Blob> blobs_;
  Blobs bottom_, top_;
  std::vector<Array> values_;
};

// Runs `body` with a set-up layer for each memory layout that the layer accepts for bottom 0
// (`shape` and `values` in plain order). The net prefers each layout in turn. Returns the layouts
// of bottom 0.
std::set<Layout> ForEachLayout(const std::string& prototxt, const Shape& shape, const Array& values,
                               const std::function<void(LayerRunner&)>& body);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NN_LAYER_RUNNER_H_
