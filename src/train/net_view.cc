#include "train/net_view.h"

#include <algorithm>
#include <set>

#include "nn/plain_values.h"
#include "proto/parse.h"
#include "solver/hdf5_snapshot.h"
#include "solver/snapshot.h"
#include "train/one_omp_thread.h"

namespace millrace::inline train {
namespace {

std::string NamesOf(const std::vector<NetBlob>& blobs) {
  std::string names;
  for (const NetBlob& blob : blobs) names += (names.empty() ? "" : ", ") + blob.name;
  return names.empty() ? "none" : names;
}

std::vector<Shape> ShapesOf(const BuiltNet::Node& node) {
  std::vector<Shape> shapes;
  for (const Blobs* blobs : {&node.bottom, &node.top}) {
    for (const Blob* blob : *blobs) shapes.push_back(blob->shape());
  }
  return shapes;
}

}  // namespace

MemoryDataLayer& FindMemoryData(const BuiltNet& net, const std::string& layer) {
  if (auto* const found = dynamic_cast<MemoryDataLayer*>(net.FindLayer(layer))) return *found;
  throw Error("net '", net.name(), "': there is no layer '", layer, "' of type MemoryData");
}

NetView::NetView(BuiltNet* net, std::span<float> weights, bool plain_blobs,
                 const SolverNet* made_of)
    : net_(*net), weights_(weights), plain_blobs_(plain_blobs), made_of_(made_of) {
  if (plain_blobs_ || made_of_ != nullptr) ShowBlobs();
}

void NetView::ShowBlobs() {
  net_.gradients();  // their memory stays from now on
  shapes_.clear();
  for (const BuiltNet::Node& node : net_.nodes()) {
    shapes_.push_back(ShapesOf(node));
    for (size_t i = 0; i < node.top.size(); ++i) {
      if (!plain_blobs_ && !net_.HasPlainPlace(*node.top[i])) continue;
      node.top[i]->data();
      // The gradient is set here only, as in Caffe: the program may change it.
      const float weight = node.need_backward ? LossWeight(node, i) : 0;
      if (weight == 0 || node.top[i]->has_diff()) continue;
      std::fill_n(node.top[i]->diff(), node.top[i]->count(), weight);
    }
  }
  if (!plain_blobs_) return;
  for (const NetParam& param : net_.params()) *param.owner->has_gradient = true;
}

std::vector<WeightArray> NetView::arrays() const {
  std::vector<WeightArray> arrays;
  if (weights_.empty()) return arrays;
  for (const ParamEntry& entry : net_.layout().entries()) {
    arrays.push_back({entry.name, entry.shape, entry.offset, entry.count});
  }
  return arrays;
}

int NetView::LoadWeights(const std::string& model_file) {
  const int matched = CopyModel(model_file, &net_);
  if (matched == 0) {
    throw Error(model_file, ": no layer with weights has the name of one in net '", name(), "'");
  }
  return matched;
}

void NetView::SaveWeights(const std::string& model_file) const {
  caffe::NetParameter model;
  net_.ToProto(&model, false);
  if (model_file.ends_with(".h5")) return SaveHdf5Model(model_file, model);
  SaveBinary(model_file, model);
}

std::vector<NetBlob> NetView::inputs() const {
  std::vector<NetBlob> inputs;
  for (const BuiltNet::Node& node : net_.nodes()) {
    if (node.layer->type() != "Input") continue;
    for (const std::string& top : node.top_names) {
      inputs.push_back({top, net_.FindBlob(top)->shape()});
    }
  }
  return inputs;
}

void NetView::SetInput(const std::string& input, std::span<const float> values) {
  const std::vector<NetBlob> all = inputs();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const NetBlob& each) { return each.name == input; });
  if (found == all.end()) {
    throw Error("net '", name(), "': there is no input '", input, "'; inputs: ", NamesOf(all));
  }
  Blob& blob = Find(input);
  if (static_cast<int64_t>(values.size()) != blob.count()) {
    throw Error("net '", name(), "': input '", input, "': ", values.size(),
                " values given, expected ", ShapeText(blob.shape()));
  }
  net_.queue().Synchronize();
  blob.CopyDataFromHost(values.data());
}

void NetView::SetMemoryData(const std::string& layer, std::span<const float> values,
                            std::span<const float> labels) {
  FindMemoryData(net_, layer).SetData(values, labels);
}

void NetView::SetMemoryData(const std::string& layer, std::span<const caffe::Datum> datums) {
  FindMemoryData(net_, layer).SetData(datums);
}

float NetView::Forward() {
  if (plain_blobs_) return ForwardLayers(0, net_.nodes().size() - 1);
  const OneOmpThread one;
  net_.set_pass(passes_++);
  return net_.Forward();
}

void NetView::Backward() {
  if (passes_ == 0) throw Error("net '", name(), "': Backward: expected a Forward before it");
  if (plain_blobs_) {
    ClearGradients();
    return BackwardLayers(net_.nodes().size() - 1, 0);
  }
  const OneOmpThread one;
  net_.ClearGradients();
  net_.Backward();
}

std::vector<NetLayer> NetView::layers() const {
  std::vector<NetLayer> layers;
  for (const BuiltNet::Node& node : net_.nodes()) {
    if (made_of_ != nullptr && BuiltNet::IsInsertedReorder(node)) continue;
    NetLayer& layer = layers.emplace_back();
    layer.name = node.layer->name();
    layer.type = node.layer->type();
    layer.bottoms = node.bottom_names;
    layer.tops = node.top_names;
    for (size_t i = 0; i < node.top.size(); ++i) layer.loss_weights.push_back(LossWeight(node, i));
    for (const Param& param : node.layer->params()) layer.weights.push_back(param.blob.get());
  }
  return layers;
}

float NetView::LossWeight(const BuiltNet::Node& node, size_t top) const {
  const auto& given = node.layer->param().loss_weight();
  const int index = static_cast<int>(top);
  return index < given.size() ? given[index] : node.layer->DefaultLossWeight(index);
}

void NetView::ExpectBlobs(const char* what) const {
  if (plain_blobs_ || made_of_ != nullptr) return;
  throw Error("net '", name(), "': ", what, ": expected a net with plain_blobs");
}

void NetView::NeedPlainBlobs(const char* what) {
  ExpectBlobs(what);
  if (plain_blobs_) return;
  const OneOmpThread one;
  net_.MakePlain(made_of_->param, made_of_->source);
  plain_blobs_ = true;
  ShowBlobs();
}

Blob& NetView::blob(const std::string& name) {
  ExpectBlobs("blob");
  Blob& found = Find(name);
  if (!plain_blobs_ && !net_.HasPlainPlace(found)) NeedPlainBlobs("blob");
  return found;
}

// Called for each layer of each pass: compares without copies.
bool NetView::IsReshaped(size_t node) const {
  const BuiltNet::Node& built = net_.nodes()[node];
  const auto same = [](const Blob* blob, const Shape& shape) { return blob->shape() == shape; };
  const auto bottoms = shapes_[node].begin(), tops = bottoms + std::ssize(built.bottom);
  return !std::equal(built.bottom.begin(), built.bottom.end(), bottoms, same) ||
         !std::equal(built.top.begin(), built.top.end(), tops, same);
}

void NetView::ReshapeNode(size_t node) {
  net_.ReshapeNode(node);
  shapes_[node] = ShapesOf(net_.nodes()[node]);
  // Other threads may look at blobs, but not allocate them, during a pass.
  for (const Blob* top : net_.nodes()[node].top) top->data();
}

void NetView::Reshape() {
  ExpectBlobs("Reshape");
  if (!plain_blobs_) {
    size_t same = 0;
    while (same < net_.nodes().size() && !IsReshaped(same)) ++same;
    if (same == net_.nodes().size()) return;
  }
  NeedPlainBlobs("Reshape");
  const OneOmpThread one;
  for (size_t n = 0; n < net_.nodes().size(); ++n) {
    if (!net_.nodes()[n].bottom.empty() || net_.nodes()[n].reshapes) ReshapeNode(n);
  }
}

void NetView::CheckRange(const char* what, size_t first, size_t last) {
  NeedPlainBlobs(what);
  if (first <= last && last < net_.nodes().size()) return;
  throw Error("net '", name(), "': ", what, ": layers ", first, " to ", last,
              " given, expected a range of 0 to ", net_.nodes().size() - 1);
}

float NetView::ForwardLayers(size_t first, size_t last) {
  CheckRange("ForwardLayers", first, last);
  const OneOmpThread one;
  net_.set_pass(passes_++);
  float loss = 0;
  for (size_t n = first; n <= last; ++n) {
    const BuiltNet::Node& node = net_.nodes()[n];
    if (node.reshapes || (!node.bottom.empty() && IsReshaped(n))) ReshapeNode(n);
    net_.ForwardNodeWithoutLoss(n);
    node.layer->CheckForward(node.bottom);
    node.layer->EndIteration();
    for (size_t i = 0; i < node.top.size(); ++i) {
      const float weight = LossWeight(node, i);
      if (weight == 0) continue;
      const float* const values = node.top[i]->data();
      float sum = 0;
      for (int64_t k = 0; k < node.top[i]->count(); ++k) sum += values[k];
      loss += weight * sum;
    }
  }
  return loss;
}

void NetView::BackwardLayers(size_t last, size_t first) {
  CheckRange("BackwardLayers", first, last);
  const OneOmpThread one;
  for (size_t n = last + 1; n-- > first;) {
    const BuiltNet::Node& node = net_.nodes()[n];
    if (!node.need_backward) continue;
    if (IsReshaped(n)) {
      throw Error("net '", name(), "': BackwardLayers: layer '", node.layer->name(),
                  "' has blobs of new shapes: expected a forward pass or Reshape before it");
    }
    if (node.is_anew) {
      throw Error("net '", name(), "': BackwardLayers: layer '", node.layer->name(),
                  "' has run in a session's step only: expected a forward pass before it");
    }
    node.layer->Backward(node.top, node.propagate_down, node.bottom);
  }
}

void NetView::ClearGradients() {
  ExpectBlobs("ClearGradients");
  std::fill_n(net_.gradients(), net_.layout().size(), 0.0f);
  // Backward passes add to them from now on.
  for (const NetParam& param : net_.params()) *param.owner->has_gradient = true;
}

void NetView::ShareWeights(Net& other) {
  ExpectBlobs("ShareWeights");
  const std::vector<NetLayer> theirs = other.layers();
  for (const NetLayer& layer : layers()) {
    const auto found = std::find_if(theirs.begin(), theirs.end(),
                                    [&](const NetLayer& each) { return each.name == layer.name; });
    if (found == theirs.end()) continue;
    const std::string what = StrCat("net '", name(), "': ShareWeights: layer '", layer.name, "'");
    if (found->weights.size() != layer.weights.size()) {
      throw Error(what, ": ", found->weights.size(), " arrays given, expected ",
                  layer.weights.size());
    }
    for (size_t i = 0; i < layer.weights.size(); ++i) {
      if (found->weights[i]->shape() != layer.weights[i]->shape()) {
        throw Error(what, " array ", i, ": shape ", ShapeText(found->weights[i]->shape()),
                    " given, expected ", ShapeText(layer.weights[i]->shape()));
      }
      layer.weights[i]->BindData(found->weights[i]->data());
    }
  }
}

std::vector<NetBlob> NetView::outputs() const {
  std::vector<NetBlob> outputs;
  for (const BuiltNet::Output& output : net_.outputs()) {
    outputs.push_back({output.name, output.blob->shape()});
  }
  return outputs;
}

std::vector<NetBlob> NetView::blobs() const {
  std::vector<NetBlob> blobs;
  std::set<std::string> known;
  for (const BuiltNet::Node& node : net_.nodes()) {
    for (const std::string& top : node.top_names) {
      const Blob* const blob = net_.FindBlob(top);  // null: a top that the file does not name
      if (blob && known.insert(top).second) blobs.push_back({top, blob->shape()});
    }
  }
  return blobs;
}

std::vector<float> NetView::Values(const std::string& blob) const {
  const Blob& found = Find(blob);
  net_.queue().Synchronize();
  return PlainData(found);
}

std::vector<float> NetView::Gradients(const std::string& blob) const {
  const Blob& found = Find(blob);
  net_.queue().Synchronize();
  return PlainDiff(found);
}

std::span<const float> NetView::gradients() const {
  const float* const gradients = net_.gradients();
  net_.queue().Synchronize();
  return {gradients, static_cast<size_t>(net_.layout().size())};
}

// Throws Error if there is no such blob.
Blob& NetView::Find(const std::string& blob) const {
  Blob* const found = net_.FindBlob(blob);
  if (found == nullptr) {
    throw Error("net '", name(), "': there is no blob '", blob, "'; blobs: ", NamesOf(blobs()));
  }
  return *found;
}

}  // namespace millrace::inline train
