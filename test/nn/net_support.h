// Builds nets from text, for tests of complete nets.
#ifndef MILLRACE_TEST_NN_NET_SUPPORT_H_
#define MILLRACE_TEST_NN_NET_SUPPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "nn/net.h"
#include "weights/weight_buffer.h"

namespace millrace::test {

inline BuiltNetOptions InPhase(caffe::Phase phase) {
  BuiltNetOptions options;
  options.state.set_phase(phase);
  options.seed = 7;
  return options;
}

// A net with its own, filled weights. Errors name its file "net.prototxt".
class TestNet {
 public:
  explicit TestNet(const std::string& text,
                   const BuiltNetOptions& options = InPhase(caffe::TRAIN)) {
    caffe::NetParameter param;
    SourceMap source;
    ParseText(text, "net.prototxt", &param, &source);
    net_ = std::make_unique<BuiltNet>(param, source, options);
    weights_ = WeightBuffer::CreatePrivate(net_->layout());
    net_->BindWeights(weights_->data());
    net_->FillWeights();
  }

  BuiltNet* operator->() { return net_.get(); }
  BuiltNet& operator*() { return *net_; }
  float* weights() { return weights_->data(); }

  const BuiltNet::Node& NodeOf(const std::string& layer) const {
    for (const BuiltNet::Node& node : net_->nodes()) {
      if (node.layer->name() == layer) return node;
    }
    throw Error("no layer '", layer, "'");
  }
  std::vector<std::string> LayerNames() const {
    std::vector<std::string> names;
    for (const BuiltNet::Node& node : net_->nodes()) names.push_back(node.layer->name());
    return names;
  }
  // Number of layout conversions in the net.
  int Reorders() const {
    int count = 0;
    for (const BuiltNet::Node& node : net_->nodes()) count += node.layer->type() == "Reorder";
    return count;
  }

  // Clears the gradients, runs one forward and one backward pass, and returns the loss.
  float Pass(uint64_t number = 0) {
    net_->set_pass(number);
    net_->ClearGradients();
    const float loss = net_->Forward();
    net_->Backward();
    return loss;
  }
  // Gradient of parameter `name` ("<layer>/<index>").
  std::vector<float> Gradient(const std::string& name) {
    const ParamEntry& entry = Entry(name);
    const float* begin = net_->gradients() + entry.offset;
    return {begin, begin + entry.count};
  }
  std::vector<float> Weights(const std::string& name) {
    const ParamEntry& entry = Entry(name);
    return {weights() + entry.offset, weights() + entry.offset + entry.count};
  }

 private:
  const ParamEntry& Entry(const std::string& name) const {
    const int index = net_->layout().Find(name);
    if (index < 0) throw Error("no parameter '", name, "'");
    return net_->layout().entries()[index];
  }

  std::unique_ptr<BuiltNet> net_;
  std::unique_ptr<WeightBuffer> weights_;
};

inline std::vector<float> Values(const Blob& blob) {
  return {blob.data(), blob.data() + blob.count()};
}

// Fills `blob` with standard normal values, or with labels below `classes` if that is positive.
inline void FillRandom(Blob* blob, uint64_t stream, int classes = 0) {
  Rng rng(11, {stream});
  for (int64_t i = 0; i < blob->count(); ++i) {
    blob->data()[i] = classes ? static_cast<float>(rng.Below(classes)) : rng.Gaussian();
  }
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NN_NET_SUPPORT_H_
