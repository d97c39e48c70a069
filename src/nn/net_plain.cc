// BuiltNet::MakePlain: builds the net anew around its data layers, its arrays and its blobs.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "nn/layers/layer_interfaces.h"
#include "nn/net.h"
#include "nn/plain_values.h"

namespace millrace::inline nn {

struct BuiltNet::Former {
  std::vector<Node> nodes;
  std::map<std::string, Node*> by_layer;
  std::vector<std::unique_ptr<Blob>> blobs;
  std::map<std::string, Blob*> by_name;
  std::set<const Blob*> placed;  // HasPlainPlace

  // Whether the layer works as it is in a net in plain order. It then keeps what it holds: its
  // place in the data, an open file.
  static bool IsPlain(const Node& node) {
    const auto plain = [](const Blob* blob) { return blob->layout() == Layout::kPlain; };
    return node.bottom.empty() || (std::all_of(node.bottom.begin(), node.bottom.end(), plain) &&
                                   std::all_of(node.top.begin(), node.top.end(), plain));
  }
};

std::unique_ptr<Layer> BuiltNet::MakeLayer(const caffe::LayerParameter& param,
                                           const LayerContext& context) {
  if (former_ != nullptr) {
    Node& node = *former_->by_layer.at(param.name());
    if (Former::IsPlain(node)) return std::move(node.layer);
  }
  return LayerRegistry::Get().Create(param, context);
}

void BuiltNet::SetUpLayer(Node* node) {
  Layer& layer = *node->layer;
  if (former_ == nullptr) {
    layer.SetUp(node->bottom, node->top);
    return layer.Reshape(node->bottom, node->top);
  }
  const Node& former = *former_->by_layer.at(layer.name());
  node->ran = former.ran;
  node->is_anew = former.layer != nullptr && former.ran;
  if (former.layer != nullptr) {
    layer.SetUp(node->bottom, node->top);
    for (size_t i = 0; i < layer.params().size(); ++i) {
      layer.params()[i].blob = former.layer->params()[i].blob;
      layer.params()[i].has_gradient = former.layer->params()[i].has_gradient;
    }
  }
  // The tops of a data layer have their shapes: those of its last batch.
  if (!node->bottom.empty()) layer.Reshape(node->bottom, node->top);
}

Blob* BuiltNet::AddBlob(const std::string& name) {
  const auto known =
      former_ == nullptr ? std::map<std::string, Blob*>::iterator() : former_->by_name.find(name);
  if (former_ == nullptr || known == former_->by_name.end()) {
    blobs_.push_back(std::make_unique<Blob>(device().memory()));
    return blobs_.back().get();
  }
  const auto owner = std::find_if(former_->blobs.begin(), former_->blobs.end(),
                                  [&](const auto& blob) { return blob.get() == known->second; });
  Blob* const blob = owner->get();
  blobs_.push_back(std::move(*owner));
  former_->blobs.erase(owner);
  if (former_->placed.count(blob) == 0) {
    blob->BindData(nullptr);
    blob->BindDiff(nullptr);
    blob->Reshape(Shape(blob->shape()), Layout::kPlain);
  }
  return blob;
}

bool BuiltNet::HasPlainPlace(const Blob& blob) const {
  if (blob.layout() != Layout::kPlain) return false;
  bool written = false;
  for (const Node& node : nodes_) {
    if (std::count(node.top.begin(), node.top.end(), &blob) == 0) continue;
    written = true;
    if (node.bottom.empty() || node.reshapes || IsInsertedReorder(node)) return false;
    if (node.layer->SharesData() || node.layer->type() == "Split") return false;
  }
  return written;
}

void BuiltNet::MakePlain(const caffe::NetParameter& param, const SourceMap& source) {
  if (options_.plain_blobs) return;
  queue_->Synchronize();
  Former former;
  struct Saved {
    Shape shape;
    std::vector<float> data, diff;
  };
  std::map<std::string, Saved> saved;
  for (const auto& [name, blob] : found_by_name_) {
    if (HasPlainPlace(*blob)) {
      former.placed.insert(blob);
      continue;
    }
    Saved& values = saved[name];
    values.shape = blob->shape();
    values.data = PlainData(*blob);
    if (blob->has_diff()) values.diff = PlainDiff(*blob);
  }
  for (Node& node : nodes_) {
    // Before the layers that a layer is fused with end.
    if (auto* const fuses = dynamic_cast<FusesNext*>(node.layer.get())) fuses->UnfuseAll();
    // Statistics of an iteration that has not ended.
    if (!Former::IsPlain(node)) node.layer->EndIteration();
  }
  former.nodes = std::exchange(nodes_, {});
  for (Node& node : former.nodes) {
    if (!IsInsertedReorder(node)) former.by_layer[node.layer->name()] = &node;
  }
  former.blobs = std::exchange(blobs_, {});
  former.by_name = std::exchange(found_by_name_, {});
  blob_by_name_.clear();
  blob_needs_backward_.clear();
  outputs_.clear();
  notices_.clear();
  params_.clear();
  param_by_share_name_.clear();
  params_of_node_.clear();
  options_.plain_blobs = true;
  former_ = &former;
  try {
    Build(param, source);
  } catch (...) {
    former_ = nullptr;
    throw;
  }
  former_ = nullptr;
  for (const auto& [name, values] : saved) {
    Blob& blob = *found_by_name_.at(name);
    if (blob.shape() != values.shape) blob.Reshape(values.shape);  // depends on values
    blob.CopyDataFromHost(values.data.data());
    if (!values.diff.empty()) blob.CopyDiffFromHost(values.diff.data());
  }
}

}  // namespace millrace::inline nn
