// What the passes of a net compute, once its layers are there: where gradients flow, which layers
// compute as one, and which blobs share memory.
#include <algorithm>
#include <map>
#include <set>

#include "nn/layers/layer_interfaces.h"
#include "nn/net.h"

namespace millrace::inline nn {
namespace {

// Throws Error where `node`, whose tops contribute to the objective, is asked for a gradient that
// does not exist, as of labels.
void CheckPropagateDown(const BuiltNet::Node& node, const SourceMap& source) {
  const auto& asked = node.layer->param().propagate_down();
  for (int i = 0; i < asked.size(); ++i) {
    if (!asked[i] || node.layer->AllowBackward(i)) continue;
    throw Error(PlaceOf(source, {node.layer->param(), node.path, node.name_in_file},
                        StrCat("propagate_down[", i, "]")),
                "no gradient flows to bottom '", node.bottom_names[i], "' of a ",
                node.layer->type(), " layer");
  }
}

}  // namespace

void BuiltNet::MarkBackward(const SourceMap& source) {
  // When the reorders were inserted, it was not known whether a gradient flows back through them.
  // Here they take that from their consumers.
  std::set<const Blob*> wanted;      // blobs whose diff a consumer writes
  std::set<const Blob*> under_loss;  // blobs that the objective depends on
  const bool without_loss =
      options_.backward_without_loss && std::none_of(nodes_.begin(), nodes_.end(), [](auto& node) {
        return std::count(node.loss_weight.begin(), node.loss_weight.end(), 0.0f) !=
               static_cast<int64_t>(node.loss_weight.size());
      });
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    bool contributes = without_loss;
    for (size_t i = 0; i < node->top.size(); ++i) {
      contributes |= node->loss_weight[i] != 0 || under_loss.count(node->top[i]) > 0;
    }
    if (IsInsertedReorder(*node)) {
      node->need_backward = contributes && wanted.count(node->top[0]) > 0;
      node->propagate_down = {node->need_backward};
    }
    for (size_t i = 0; without_loss && node->need_backward && i < node->top.size(); ++i) {
      if (wanted.count(node->top[i]) == 0) node->loss_weight[i] = 1;
    }
    if (!contributes) {
      node->need_backward = false;
      std::fill(node->propagate_down.begin(), node->propagate_down.end(), false);
      continue;
    }
    CheckPropagateDown(*node, source);
    for (size_t i = 0; i < node->bottom.size(); ++i) {
      if (!node->propagate_down[i]) continue;
      under_loss.insert(node->bottom[i]);
      wanted.insert(node->bottom[i]);
    }
  }
}

void BuiltNet::MarkReshapes() {
  std::set<const Blob*> changing;  // blobs whose shape depends on values
  for (Node& node : nodes_) {
    node.reshapes = node.layer->ReshapesInForward() ||
                    std::any_of(node.bottom.begin(), node.bottom.end(),
                                [&](const Blob* blob) { return changing.count(blob) > 0; });
    if (node.reshapes) changing.insert(node.top.begin(), node.top.end());
  }
}

// Not with debug_info, which shows what each layer computes.
void BuiltNet::FuseLayers() {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    auto* const layer = dynamic_cast<FusesNext*>(node.layer.get());
    if (layer == nullptr || node.top.size() != 1) continue;
    layer->UnfuseAll();
    if (debug_info_ || !options_.fuse) continue;
    for (size_t next = n + 1; next < nodes_.size(); ++next) {
      const Node& behind = nodes_[next];
      if (behind.bottom != node.top || behind.top != node.top) break;
      if (nodes_[next - 1].loss_weight[0] != 0) break;
      if (!layer->TryFuse(behind.layer.get())) break;
    }
  }
}

void BuiltNet::set_debug_info(bool debug_info) {
  if (debug_info == debug_info_) return;
  debug_info_ = debug_info;
  FuseLayers();
}

// Gradients that one layer writes and another reads. The others keep memory of their own: those
// that nobody writes stay 0, those that nobody reads are for the caller.
void BuiltNet::ShareBlobMemory() {
  struct Use {
    size_t first, last;
    bool written = false, read = false;
  };
  std::map<Blob*, Use> uses;
  std::vector<Blob*> in_order;
  const auto use = [&](Blob* blob, size_t node) -> Use& {
    const auto [found, is_new] = uses.try_emplace(blob, Use{node, node});
    if (is_new) in_order.push_back(blob);
    found->second.last = node;
    return found->second;
  };
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (!node.need_backward) continue;
    last_backward_ = n;
    for (size_t i = 0; i < node.bottom.size(); ++i) {
      if (node.propagate_down[i]) use(node.bottom[i], n).written = true;
    }
    for (size_t i = 0; i < node.top.size(); ++i) {
      Use& top = use(node.top[i], n);
      top.read = true;
      if (node.loss_weight[i] != 0) top.written = true;
    }
  }
  if (options_.keep_activations) return;
  for (Blob* blob : in_order) {
    const Use& of = uses[blob];
    // Steps of an iteration: all forward passes, then the backward passes from the last layer on.
    const size_t end = 2 * nodes_.size() - 1;
    if (of.written && of.read) blob_memory_.AddGradient(blob, end - of.last, end - of.first);
  }
  ShareValueMemory();
}

// Values that no backward pass reads, of blobs between two layers.
void BuiltNet::ShareValueMemory() {
  if (blob_memory_.empty()) return;  // no backward pass, in which memory would be shared
  struct Use {
    size_t first = 0, last = 0;
    bool consumed = false, kept = false;
  };
  std::map<Blob*, Use> uses;
  std::vector<Blob*> in_order;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    const auto* const layer = dynamic_cast<const BackwardReads*>(node.layer.get());
    ValuesRead read = node.need_backward ? ValuesRead::kAll : ValuesRead::kNone;
    if (node.need_backward && layer != nullptr) read = layer->BackwardValues(node.bottom, node.top);
    // Memory that is not the blob's own (also of layers that read data), or whose size changes.
    const bool shared = node.bottom.empty() || node.layer->SharesData() || node.reshapes;
    for (Blob* blob : node.bottom) {
      Use& use = uses[blob];
      use.last = n;
      use.consumed = true;
      use.kept |= shared || read != ValuesRead::kNone;
    }
    for (size_t i = 0; i < node.top.size(); ++i) {
      const auto [found, is_new] = uses.try_emplace(node.top[i], Use{n, n});
      if (is_new) in_order.push_back(node.top[i]);
      found->second.last = n;
      found->second.kept |= shared || read == ValuesRead::kAll || node.loss_weight[i] != 0;
    }
  }
  for (Blob* blob : in_order) {
    const Use& use = uses[blob];
    if (use.consumed && !use.kept) blob_memory_.AddValues(blob, use.first, use.last);
  }
}

// A parameter that several layers share is complete with the first of them.
void BuiltNet::FindCompleteGradients() {
  std::vector<size_t> first_node(params_.size(), nodes_.size());
  for (size_t n = nodes_.size(); n-- > 0;) {
    for (const int param : params_of_node_[n]) {
      if (nodes_[n].need_backward && params_[param].lr_mult != 0) first_node[param] = n;
    }
  }
  // params_ and the array have the same order.
  size_t incomplete = params_.size();
  complete_from_.resize(nodes_.size());
  for (size_t n = nodes_.size(); n-- > 0;) {
    while (incomplete > 0 && first_node[incomplete - 1] >= n) --incomplete;
    complete_from_[n] = incomplete == 0                ? 0
                        : incomplete == params_.size() ? layout_.size()
                                                       : layout_.entries()[incomplete].offset;
  }
}

void BuiltNet::AllocateLosses() {
  int64_t floats = 0;
  for (Node& node : nodes_) {
    for (size_t i = 0; i < node.top.size(); ++i) {
      node.loss_at.push_back(floats);
      node.loss_room.push_back(node.top[i]->count());
      if (node.loss_weight[i] != 0) floats += node.top[i]->count();
    }
  }
  MemorySpace& staging = device().staging();
  loss_values_ = Buffer(staging, floats * sizeof(float));
  loss_diffs_ = Buffer(staging, floats * sizeof(float));
  std::fill_n(loss_values_.get<float>(), floats, 0.0f);
  float* diff = loss_diffs_.get<float>();
  for (const Node& node : nodes_) {
    for (size_t i = 0; i < node.top.size(); ++i) {
      if (node.loss_weight[i] == 0) continue;
      diff = std::fill_n(diff, node.top[i]->count(), node.loss_weight[i]);
    }
  }
}

}  // namespace millrace::inline nn
