#include "solver/pass_graphs.h"

#include <glog/logging.h>

#include <set>
#include <utility>

#include "base/error.h"
#include "nn/gpu/gpu_settings.h"

namespace millrace::inline solver {
namespace {

constexpr int kIterationsBefore = 2;

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

PassGraphs* PassGraphs::Of(BuiltNet* net, const SolverConfig& config, bool sums_gradients) {
  if (GpuSettingsOf(net->queue()).graphs == GraphUse::kOff ||
      GraphRecorders::Find(net->device().type()) == nullptr) {
    return nullptr;
  }
  const bool debugs = config.param.debug_info() || config.train.param.debug_info();
  const char* const why = debugs           ? "debug_info is set"
                          : sums_gradients ? "gradients are summed with others' during a pass"
                                           : "";
  return &net->queue().Attached<PassGraphs>(
      [&] { return std::make_unique<PassGraphs>(net, config.param.iter_size(), why); });
}

PassGraphs::PassGraphs(BuiltNet* net, int passes, const std::string& why_not)
    : net_(*net), passes_(passes), recorder_(GraphRecorders::Find(net->device().type())) {
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
  graphs_.clear();
  if (GpuSettingsOf(net_.queue()).graphs == GraphUse::kOn) {
    throw Error(net_.device().name(),
                ": --cuda_graphs=on: training passes cannot be recorded: ", why);
  }
  LOG(INFO) << net_.device().name() << ": the work of training passes is not recorded: " << why;
}

PassGraphs::Enqueued PassGraphs::Enqueue(int pass, IterationUpdate* update) {
  if (!why_not_.empty() || ordinary_ < int64_t{kIterationsBefore} * passes_) {
    ++ordinary_;
    return {EnqueueFrom(0)};
  }
  for (size_t i = 0; i < first_; ++i) net_.ForwardNode(i);
  for (PreparesPass* layer : prepared_) layer->PreparePass();
  const bool records = update != nullptr && update->why_not().empty();
  const bool updates = records && pass == passes_ - 1;
  WorkGraph* const graph = Next(pass, records ? update : nullptr);
  if (graph == nullptr) {
    const ByCaller by_caller(prepared_);
    return {EnqueueFrom(first_)};
  }
  if (updates) {
    update->Prepare();
    update->order().WriteAfter(net_.queue(), [&](const Event& last) { graph->Enqueue(last); });
    ++updates_;
  } else {
    graph->Enqueue();
  }
  ++enqueued_;
  if (pass == passes_ - 1) LogOnce(update);
  // As the layers' own passes leave it.
  for (const BuiltNet::Node& node : net_.nodes()) {
    if (!node.need_backward) continue;
    for (Param& param : node.layer->params()) {
      if (param.wanted) *param.has_gradient = true;
    }
  }
  return {graph->marked(), updates};
}

Event PassGraphs::EnqueueFrom(size_t first_node) {
  for (size_t i = first_node; i < net_.nodes().size(); ++i) net_.ForwardNode(i);
  const Event forward = net_.queue().Record();
  net_.Backward();
  return forward;
}

// The graph whose turn it is; null if the pass cannot be recorded.
WorkGraph* PassGraphs::Next(int pass, IterationUpdate* update) {
  std::vector<const void*> places = Places();
  const uint64_t number = update != nullptr ? update->number() : 0;
  if (places != places_ || number != update_) {
    // In the graphs that are replaced nothing runs any more.
    net_.queue().Synchronize();
    graphs_.clear();
    places_ = std::move(places);
    update_ = number;
  }
  const std::pair<bool, bool> kind(pass == 0, pass == passes_ - 1);
  if (!kind.second) update = nullptr;
  if (update != nullptr) graphs_[kind].next ^= 1;
  if (const Turns& turns = graphs_[kind]; turns.graphs[turns.next]) {
    return turns.graphs[turns.next].get();
  }
  std::unique_ptr<WorkGraph> graph = Record(pass, update);
  if (graph == nullptr) return nullptr;
  Turns& turns = graphs_[kind];
  turns.graphs[turns.next] = std::move(graph);
  return turns.graphs[turns.next].get();
}

void PassGraphs::LogOnce(const IterationUpdate* update) {
  if (std::exchange(logged_, true)) return;
  const std::string why = update == nullptr ? "this solver has none" : update->why_not();
  LOG(INFO) << net_.device().name() << ": the work of training passes is recorded as graphs, "
            << (why.empty() ? "with updates" : "without updates: " + why);
}

std::unique_ptr<WorkGraph> PassGraphs::Record(int pass, IterationUpdate* update) {
  std::string why;
  const size_t count = net_.nodes().size();
  const auto enqueue = [&](GraphPoints& points) {
    const ByCaller by_caller(prepared_);
    for (size_t i = first_; i < count; ++i) net_.ForwardNode(i);
    points.Mark();
    for (size_t i = count; i-- > 0;) net_.BackwardNode(i);
    if (update == nullptr) return;
    points.Wait();
    update->Enqueue();
  };
  std::unique_ptr<WorkGraph> graph = recorder_(net_.queue(), enqueue, &why);
  if (pass == 0) net_.ClearGradients();  // nothing has been computed
  if (graph == nullptr) {
    GiveUp(why);
    return nullptr;
  }
  return graph;
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
