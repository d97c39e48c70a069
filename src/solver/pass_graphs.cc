#include "solver/pass_graphs.h"

#include <glog/logging.h>

#include <atomic>
#include <set>

#include "base/error.h"

namespace millrace::inline solver {
namespace {

std::atomic<bool> wanted{false};

constexpr int kPassesBefore = 2;

// Layers whose passes enqueue the same work each time, as long as shapes and memory stay: their
// code for GPUs keeps nothing of a pass on the host, and takes no number of the host that changes,
// but for what PreparePass does.
bool IsAlike(const std::string& type) {
  static const std::set<std::string> types = {"AbsVal",
                                              "Accuracy",
                                              "BatchNorm",
                                              "Bias",
                                              "BN",
                                              "BNLL",
                                              "Clip",
                                              "Concat",
                                              "Convolution",
                                              "Crop",
                                              "Deconvolution",
                                              "DepthwiseConvolution",
                                              "Dropout",
                                              "Eltwise",
                                              "ELU",
                                              "EuclideanLoss",
                                              "Exp",
                                              "Flatten",
                                              "InnerProduct",
                                              "Insanity",
                                              "Interp",
                                              "Log",
                                              "LRN",
                                              "Normalize",
                                              "Permute",
                                              "Pooling",
                                              "Power",
                                              "PReLU",
                                              "ReLU",
                                              "ReLU6",
                                              "Reshape",
                                              "Scale",
                                              "SeLu",
                                              "ShuffleChannel",
                                              "Sigmoid",
                                              "SigmoidCrossEntropyLoss",
                                              "Silence",
                                              "Slice",
                                              "Softmax",
                                              "SoftmaxWithLoss",
                                              "Split",
                                              "Swish",
                                              "TanH"};
  return types.contains(type);
}

// Why the work of a layer cannot be recorded; "" if it can.
std::string WhyNot(const BuiltNet::Node& node) {
  const Layer& layer = *node.layer;
  std::string why;
  if (node.reshapes) {
    why = "has shapes that depend on values";
  } else if (layer.param().batch_norm_param().synchronized()) {
    why = "averages over the solvers on the host";
  } else if (!IsAlike(layer.type())) {
    why = "may need the host";
  }
  return why.empty() ? "" : StrCat("layer '", layer.name(), "' (", layer.type(), ") ", why);
}

// Layers do not prepare their passes themselves while this exists.
class ByCaller {
 public:
  explicit ByCaller(const std::vector<PreparesPass*>& layers) : layers_(layers) { Set(true); }
  ~ByCaller() { Set(false); }
  ByCaller(const ByCaller&) = delete;
  ByCaller& operator=(const ByCaller&) = delete;

 private:
  void Set(bool by_caller) {
    for (PreparesPass* layer : layers_) layer->set_prepared_by_caller(by_caller);
  }
  const std::vector<PreparesPass*>& layers_;
};

}  // namespace

void SetPassGraphs(bool value) { wanted = value; }

bool ParsePassGraphs(const std::string& text) {
  if (text == "auto") return true;
  if (text == "off") return false;
  throw Error("--cuda_graphs=", text, ": expected auto or off");
}

PassGraphs* PassGraphs::Of(BuiltNet* net, const SolverConfig& config, bool sums_gradients) {
  if (!wanted || GraphRecorders::Find(net->device().type()) == nullptr) return nullptr;
  const bool debugs = config.param.debug_info() || config.train.param.debug_info();
  const char* const why = config.param.iter_size() > 1 ? "iter_size is larger than 1"
                          : debugs                     ? "debug_info is set"
                          : sums_gradients ? "gradients are summed with others' during a pass"
                                           : "";
  PassGraphs& graphs =
      net->queue().Attached<PassGraphs>([&] { return std::make_unique<PassGraphs>(net, why); });
  return *why == '\0' && graphs.why_not().empty() ? &graphs : nullptr;
}

PassGraphs::PassGraphs(BuiltNet* net, const std::string& why_not)
    : net_(*net), recorder_(GraphRecorders::Find(net->device().type())) {
  std::string why = why_not;
  const std::vector<BuiltNet::Node>& nodes = net_.nodes();
  while (first_ < nodes.size() && nodes[first_].bottom.empty()) ++first_;
  for (size_t i = first_; why.empty() && i < nodes.size(); ++i) {
    why = WhyNot(nodes[i]);
    auto* const prepares = dynamic_cast<PreparesPass*>(nodes[i].layer.get());
    if (prepares != nullptr) prepared_.push_back(prepares);
  }
  if (!why.empty()) GiveUp(why);
}

void PassGraphs::GiveUp(const std::string& why) {
  why_not_ = why;
  forward_.reset();
  backward_.reset();
  LOG(INFO) << net_.device().name() << ": the work of training passes is not recorded: " << why;
}

Event PassGraphs::Enqueue() {
  if (!why_not_.empty() || passes_ < kPassesBefore) return EnqueueAsItIs();
  if (Places() != places_ && !Record()) return EnqueueAsItIs();
  for (size_t i = 0; i < first_; ++i) net_.ForwardNode(i);
  for (PreparesPass* layer : prepared_) layer->PreparePass();
  forward_->Enqueue();
  const Event forward = net_.queue().Record();
  backward_->Enqueue();
  // As the layers' own passes leave it.
  for (const BuiltNet::Node& node : net_.nodes()) {
    if (!node.need_backward) continue;
    for (Param& param : node.layer->params()) {
      if (param.wanted) *param.has_gradient = true;
    }
  }
  return forward;
}

Event PassGraphs::EnqueueAsItIs() {
  ++passes_;
  for (size_t i = 0; i < net_.nodes().size(); ++i) net_.ForwardNode(i);
  const Event forward = net_.queue().Record();
  net_.Backward();
  return forward;
}

// Returns false if that is not possible.
bool PassGraphs::Record() {
  const bool is_first = forward_ == nullptr;
  const size_t count = net_.nodes().size();
  std::string why;
  // In the graphs that are replaced nothing runs any more.
  net_.queue().Synchronize();
  const auto forward = [&] {
    const ByCaller by_caller(prepared_);
    for (size_t i = first_; i < count; ++i) net_.ForwardNode(i);
  };
  forward_ = recorder_(net_.queue(), forward, &why);
  if (forward_ != nullptr) {
    backward_ = recorder_(
        net_.queue(),
        [&] {
          for (size_t i = count; i-- > 0;) net_.BackwardNode(i);
        },
        &why);
    net_.ClearGradients();  // nothing has been computed
  }
  if (forward_ == nullptr || backward_ == nullptr) {
    GiveUp(why);
    return false;
  }
  places_ = Places();
  if (is_first) {
    LOG(INFO) << net_.device().name() << ": the work of training passes is recorded as graphs";
  }
  return true;
}

std::vector<const void*> PassGraphs::Places() const {
  std::vector<const void*> places;
  for (const BuiltNet::Node& node : net_.nodes()) {
    for (const Blob* const top : node.top) {
      places.push_back(top->data());
      if (top->has_diff()) places.push_back(top->diff());
    }
    for (const Param& param : node.layer->params()) {
      places.push_back(param.blob->data());
      if (param.blob->has_diff()) places.push_back(param.blob->diff());
    }
  }
  return places;
}

}  // namespace millrace::inline solver
