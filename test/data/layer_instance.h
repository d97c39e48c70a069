// A layer without bottoms on its own, set up as in a net.
#ifndef MILLRACE_TEST_DATA_LAYER_INSTANCE_H_
#define MILLRACE_TEST_DATA_LAYER_INSTANCE_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "data/data_service.h"
#include "millrace/layer.h"
#include "proto/parse.h"
#include "test/support/support.h"

namespace millrace::test {

// The parameters in a layer { } block.
inline caffe::LayerParameter LayerOf(const std::string& prototxt) {
  caffe::LayerParameter param;
  ParseText(prototxt, "layer.prototxt", &param, nullptr);
  if (param.name().empty()) param.set_name("subject");
  return param;
}

class LayerInstance {
 public:
  // Its tops are those that `param` names. `service` may be null.
  LayerInstance(const caffe::LayerParameter& param, DataService* service,
                caffe::Phase phase = caffe::TRAIN, Queue& queue = HostQueue()) {
    LayerContext context;
    context.device = &queue.device();
    context.queue = &queue;
    context.phase = phase;
    context.data = service;
    context.data_scope = "train";
    layer_ = LayerRegistry::Get().Create(param, context);
    for (int i = 0; i < param.top_size(); ++i) {
      blobs_.emplace_back(queue.device().memory());
      tops_.push_back(&blobs_.back());
    }
    layer_->SetUp({}, tops_);
    layer_->Reshape({}, tops_);
  }

  Layer& layer() { return *layer_; }
  Blob& top(int i = 0) { return *tops_[i]; }
  // As a net does before each Forward of a layer that reshapes there.
  void Reshape() { layer_->Reshape({}, tops_); }
  void Forward() { layer_->Forward({}, tops_); }
  // The values of a top.
  std::vector<float> Values(int i = 0) const {
    std::vector<float> values(tops_[i]->count());
    tops_[i]->CopyDataToHost(values.data());
    return values;
  }
  // Forward, then the values of a top.
  std::vector<float> Next(int i = 0) {
    Forward();
    return Values(i);
  }

 private:
  std::unique_ptr<Layer> layer_;
  std::deque<Blob> blobs_;
  Blobs tops_;
};

// "field: message" of the FieldError that setting up such a layer throws; "" if it throws none.
inline std::string SetUpError(const caffe::LayerParameter& param) {
  DataService service{DataOptions()};
  try {
    LayerInstance instance(param, &service);
  } catch (const FieldError& error) {
    return error.field() + ": " + error.what();
  }
  return "";
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_DATA_LAYER_INSTANCE_H_
