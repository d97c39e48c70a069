#include "nn/net.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.h"
#include "nn/filler.h"
#include "proto/upgrade.h"

namespace millrace::inline nn {
namespace {

// Calls `pass`, in which blobs get their memory when they are first used. Names the layer for which
// there is not enough.
template <typename Pass>
void WithRoom(const Layer& layer, Pass pass) {
  try {
    pass();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory("layer '", layer.name(), "' (", layer.type(), "): ", error.what());
  }
}

// Calls allocate(), which makes the one array of `what` for all layers. If there is not enough
// memory, names the layer that needs the most of it, as size_of(layer) says.
template <typename Nodes, typename SizeOf, typename Allocate>
void WithRoomForAll(const Nodes& nodes, const char* what, SizeOf size_of, Allocate allocate) {
  try {
    allocate();
  } catch (const OutOfMemory& error) {
    const Layer* largest = nullptr;
    int64_t most = -1;
    for (const auto& node : nodes) {
      const int64_t size = size_of(node);
      if (size > most) most = size, largest = node.layer.get();
    }
    throw OutOfMemory(what, " of all layers, most of them of layer '", largest->name(), "' (",
                      largest->type(), "): ", error.what());
  }
}

}  // namespace

void BuiltNet::BindParam(size_t index, float* data) {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (size_t i = 0; i < params_of_node_[n].size(); ++i) {
      if (params_of_node_[n][i] == static_cast<int>(index)) {
        nodes_[n].layer->params()[i].blob->BindData(data);
      }
    }
  }
}

void BuiltNet::BindWeights(float* weights) {
  for (size_t i = 0; i < params_.size(); ++i) {
    BindParam(i, weights + layout_.entries()[params_[i].entry].offset);
  }
}

void BuiltNet::BindWeights(const ParamLayout& other, float* weights) {
  std::vector<size_t> own;
  int64_t own_count = 0;
  for (size_t i = 0; i < params_.size(); ++i) {
    const ParamEntry& entry = layout_.entries()[params_[i].entry];
    const int found = other.Find(entry.name);
    if (found < 0) {
      own.push_back(i);
      own_count += entry.count;
      continue;
    }
    const ParamEntry& theirs = other.entries()[found];
    if (theirs.shape != entry.shape) {
      throw Error("parameter '", entry.name, "' has shape ", ShapeText(entry.shape), " in the ",
                  context_.phase == caffe::TEST ? "test" : "train", " net '", name_, "', but ",
                  ShapeText(theirs.shape), " in the net whose weights it shares");
    }
    BindParam(i, weights + theirs.offset);
  }
  queue_->Synchronize();  // work that has been enqueued may use the old memory
  const bool is_first = own_weights_.bytes() == 0;
  if (is_first) own_weights_ = Buffer(device().memory(), own_count * sizeof(float));
  float* next = own_weights_.get<float>();
  for (size_t i : own) {
    BindParam(i, next);
    if (is_first) FillParam(params_[i]);
    next += params_[i].owner->blob->count();
  }
}

bool BuiltNet::IsOwnWeight(const Blob& blob) const {
  const float* const begin = own_weights_.get<float>();
  return begin != nullptr && blob.data() >= begin &&
         blob.data() < begin + own_weights_.bytes() / sizeof(float);
}

void BuiltNet::FillWeights() {
  queue_->Synchronize();
  for (const NetParam& param : params_) FillParam(param);
  copied_params_.clear();
}

void BuiltNet::FillParam(const NetParam& param) {
  Rng rng(options_.seed, {kRngFiller, static_cast<uint64_t>(param.entry)});
  Blob& blob = *param.owner->blob;
  if (param.initial != nullptr) {
    return blob.FromProto(*param.initial, StrCat("parameter '", param.display_name, "'"));
  }
  if (blob.memory().on_host()) {
    return Fill(param.owner->filler, blob.shape(), &rng, blob.data());
  }
  std::vector<float> values(blob.count());
  Fill(param.owner->filler, blob.shape(), &rng, values.data());
  blob.CopyDataFromHost(values.data());
}

int BuiltNet::CopyWeightsFrom(const caffe::NetParameter& saved, const std::string& what) {
  return CopyWeights(saved, what, false);
}

int BuiltNet::CopyOwnWeightsFrom(const caffe::NetParameter& saved, const std::string& what) {
  return CopyWeights(saved, what, true);
}

int BuiltNet::CopyWeights(const caffe::NetParameter& saved, const std::string& what,
                          bool own_only) {
  if (NeedsUpgrade(saved)) {
    caffe::NetParameter today = saved;
    UpgradeNet(SourceMap(what), &today);
    return CopyWeights(today, what, own_only);
  }
  queue_->Synchronize();
  constexpr char kRename[] = "; to train a layer anew, rename it in the net";
  // By name, the layers with weights; or one without them, for which saved weights are an error.
  // Indices in nodes_.
  std::map<std::string, std::vector<size_t>> targets;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (node.path.empty()) continue;
    std::vector<size_t>& found = targets[node.name_in_file];
    if (!found.empty() && node.layer->params().empty()) continue;
    if (!found.empty() && nodes_[found[0]].layer->params().empty()) found.clear();
    found.push_back(n);
  }
  std::map<std::string, size_t> numbers;
  int matched = 0;
  for (const caffe::LayerParameter& layer : saved.layer()) {
    const auto found = targets.find(layer.name());
    if (found == targets.end() || layer.blobs_size() == 0) continue;
    const size_t number = std::min(numbers[layer.name()]++, found->second.size() - 1);
    const size_t node = found->second[number];
    std::vector<Param>& params = nodes_[node].layer->params();
    if (own_only && (params.empty() || !IsOwnWeight(*params[0].blob))) continue;
    if (static_cast<size_t>(layer.blobs_size()) != params.size()) {
      throw Error(what, ": layer '", layer.name(), "': holds ", layer.blobs_size(),
                  " blobs, expected ", params.size(), kRename);
    }
    for (int i = 0; i < layer.blobs_size(); ++i) {
      try {
        params[i].blob->FromProto(layer.blobs(i),
                                  StrCat(what, ": layer '", layer.name(), "' blob ", i));
      } catch (const Error& error) {
        throw Error(error.what(), kRename);
      }
    }
    copied_params_.insert(params_of_node_[node].begin(), params_of_node_[node].end());
    ++matched;
  }
  return matched;
}

std::vector<std::string> BuiltNet::LayersWithoutSavedWeights() const {
  std::vector<std::string> layers;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const std::vector<int>& params = params_of_node_[n];
    const bool complete = std::all_of(params.begin(), params.end(), [this](int param) {
      return copied_params_.count(param) > 0;
    });
    if (complete) continue;
    const Layer& layer = *nodes_[n].layer;
    layers.push_back(StrCat("'", layer.name(), "' (", layer.type(), ")"));
  }
  return layers;
}

template <typename Convert>
void BuiltNet::ParamsToProto(caffe::NetParameter* proto, Convert convert) const {
  proto->Clear();
  proto->set_name(name_);
  for (size_t n = 0; n < nodes_.size(); ++n) {
    // Splits are part of the net, as in Caffe's files. Conversions between memory orders are
    // internal to this program.
    if (IsInsertedReorder(nodes_[n])) continue;
    caffe::LayerParameter* layer = proto->add_layer();
    *layer = nodes_[n].layer->param();
    layer->set_name(nodes_[n].name_in_file);
    layer->clear_blobs();
    for (size_t i = 0; i < params_of_node_[n].size(); ++i) {
      convert(*nodes_[n].layer->params()[i].blob, params_[params_of_node_[n][i]],
              layer->add_blobs());
    }
  }
}

void BuiltNet::ToProto(caffe::NetParameter* proto, bool with_diff) const {
  queue_->Synchronize();
  ParamsToProto(proto, [&](const Blob& blob, const NetParam&, caffe::BlobProto* to) {
    blob.ToProto(to, with_diff);
  });
}

void BuiltNet::ToProto(caffe::NetParameter* proto, bool with_diff, const float* weights) const {
  if (with_diff) queue_->Synchronize();
  ParamsToProto(proto, [&](const Blob& blob, const NetParam& param, caffe::BlobProto* to) {
    Blob values(blob.shape());
    // The conversion only reads.
    values.BindData(const_cast<float*>(weights) + layout_.entries()[param.entry].offset);
    values.ToProto(to, false);
    if (!with_diff) return;
    const auto count = static_cast<int>(blob.count());
    to->mutable_diff()->Reserve(count);
    blob.CopyDiffToHost(to->mutable_diff()->AddNAlreadyReserved(count));
  });
}

void BuiltNet::ShapesToProto(caffe::NetParameter* proto) const {
  ParamsToProto(proto, [](const Blob& blob, const NetParam&, caffe::BlobProto* to) {
    to->mutable_shape();
    for (const int64_t dim : blob.shape()) to->mutable_shape()->add_dim(dim);
  });
}

void BuiltNet::ReshapeNode(Node* node) {
  // The layer reads values that the layers before it compute, and no work may use what it frees.
  if (node->layer->ReshapesInForward()) queue_->Synchronize();
  try {
    WithRoom(*node->layer, [&] { node->layer->Reshape(node->bottom, node->top); });
  } catch (const OutOfMemory&) {
    throw;  // names the layer
  } catch (const FieldError& error) {
    throw Error("layer '", node->layer->name(), "': ", error.field(), ": ", error.what());
  } catch (const Error& error) {
    throw Error("layer '", node->layer->name(), "': ", error.what());
  }
}

void BuiltNet::ForwardNode(size_t index) {
  Node& node = nodes_[index];
  if (node.reshapes) ReshapeNode(&node);
  ForwardNodeWithoutLoss(index);
  for (size_t i = 0; i < node.top.size(); ++i) {
    if (node.loss_weight[i] == 0) continue;
    if (node.top[i]->count() > node.loss_room[i]) {
      throw Error("layer '", node.layer->name(), "': its loss has ", node.top[i]->count(),
                  " values, expected at most the ", node.loss_room[i],
                  " of the net as it was built");
    }
    queue_->CopyToHost(loss_values_.get<float>() + node.loss_at[i], node.top[i]->data(),
                       node.top[i]->count() * sizeof(float));
  }
}

void BuiltNet::ForwardNodeWithoutLoss(size_t index) {
  Node& node = nodes_[index];
  WithRoom(*node.layer, [&] {
    const bool keeps = options_.plain_blobs && node.bottom.empty();
    if (keeps) {
      for (Blob* top : node.top) {
        top->data();
        kept_batches_[top] = *top;
      }
    }
    node.layer->Forward(node.bottom, node.top);
    if (keeps) KeepBatch(node);
  });
  node.ran = true;
  node.is_anew = false;
}

void BuiltNet::KeepBatch(const Node& node) {
  for (Blob* top : node.top) {
    Blob& kept = kept_batches_[top];  // has the memory of the top before the pass
    kept.Reshape(top->shape());
    if (top->data() == kept.data()) continue;
    std::copy_n(top->data(), top->count(), kept.data());
    top->ShareData(kept);
  }
}

void BuiltNet::BackwardNode(size_t index) {
  Node& node = nodes_[index];
  if (!node.need_backward) return;
  if (index == last_backward_) {
    const auto size_of = [](const Node& node) {
      int64_t size = 0;
      for (const Blob* top : node.top) size += top->count();
      return size;
    };
    WithRoomForAll(nodes_, "the activations and their gradients", size_of,
                   [&] { blob_memory_.Prepare(queue_.get()); });
  }
  WithRoom(*node.layer, [&] {
    for (size_t i = 0; i < node.top.size(); ++i) {
      if (node.loss_weight[i] == 0) continue;
      queue_->CopyToDevice(node.top[i]->diff(), loss_diffs_.get<float>() + node.loss_at[i],
                           node.top[i]->count() * sizeof(float));
    }
    node.layer->Backward(node.top, node.propagate_down, node.bottom);
  });
  for (Param& param : node.layer->params()) {
    if (param.wanted) *param.has_gradient = true;
  }
}

void BuiltNet::EnqueueForward() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    ForwardNode(i);
    if (debug_info_) LogForward(nodes_[i]);
  }
  loss_copied_ = queue_->Record();
}

float BuiltNet::Loss() const {
  loss_copied_.Synchronize();
  for (const Node& node : nodes_) node.layer->CheckForward(node.bottom);
  float loss = 0;
  for (const Node& node : nodes_) {
    float of_node = 0;
    for (size_t i = 0; i < node.top.size(); ++i) {
      if (node.loss_weight[i] == 0) continue;
      const float* value = loss_values_.get<float>() + node.loss_at[i];
      float sum = 0;
      for (int64_t k = 0; k < node.top[i]->count(); ++k) sum += *value++;
      of_node += node.loss_weight[i] * sum;
    }
    loss += of_node;
  }
  return loss;
}

std::vector<float> BuiltNet::OutputValues() const {
  queue_->Synchronize();
  size_t count = 0;
  for (const Output& output : outputs_) count += output.blob->count();
  std::vector<float> values(count);
  float* next = values.data();
  for (const Output& output : outputs_) {
    output.blob->CopyDataToHost(next);
    next += output.blob->count();
  }
  return values;
}

void BuiltNet::Backward(const std::function<void(int64_t begin)>& ready) {
  gradients();
  for (size_t i = nodes_.size(); i-- > 0;) {
    BackwardNode(i);
    if (debug_info_) LogBackward(nodes_[i]);
    if (ready) ready(complete_from_[i]);
  }
  if (debug_info_) LogParams();
}

void BuiltNet::EndIteration() {
  for (Node& node : nodes_) node.layer->EndIteration();
}

void BuiltNet::ClearGradients() {
  for (const NetParam& param : params_) *param.owner->has_gradient = false;
}

float* BuiltNet::gradients() {
  if (!gradients_.get()) {
    const size_t bytes = layout_.size() * sizeof(float);
    const auto size_of = [](const Node& node) {
      int64_t size = 0;
      for (const Param& param : node.layer->params()) size += param.blob->count();
      return size;
    };
    WithRoomForAll(nodes_, "the gradients", size_of,
                   [&] { gradients_ = Buffer(device().memory(), std::max<size_t>(bytes, 1)); });
    device().memory().Fill(gradients_.get(), 0, bytes);
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (size_t i = 0; i < params_of_node_[n].size(); ++i) {
        const NetParam& param = params_[params_of_node_[n][i]];
        nodes_[n].layer->params()[i].blob->BindDiff(gradients_.get<float>() +
                                                    layout_.entries()[param.entry].offset);
      }
    }
  }
  return gradients_.get<float>();
}

// Others may change weights meanwhile.
__attribute__((noinline)) bool HogwildReadAreFinite(const float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return false;
  }
  return true;
}

std::string BuiltNet::FindNonFinite() const {
  queue_->Synchronize();
  std::vector<float> copy;
  const auto finite = [&](const Blob& blob) {
    return HogwildReadAreFinite(blob.DataOnHost(&copy), blob.count());
  };
  for (const Node& node : nodes_) {
    for (size_t i = 0; i < node.layer->params().size(); ++i) {
      if (!finite(*node.layer->params()[i].blob)) {
        return StrCat("layer '", node.layer->name(), "' (", node.layer->type(), "): ",
                      i == 0   ? "weights"
                      : i == 1 ? "bias"
                               : "parameters",
                      " are not finite");
      }
    }
    for (size_t i = 0; i < node.top.size(); ++i) {
      if (!finite(*node.top[i])) {
        return StrCat("layer '", node.layer->name(), "' (", node.layer->type(), "): output '",
                      node.top_names[i], "' is not finite");
      }
    }
  }
  return "";
}

Blob* BuiltNet::FindBlob(const std::string& name) const {
  const auto found = found_by_name_.find(name);
  return found == found_by_name_.end() ? nullptr : found->second;
}

Layer* BuiltNet::FindLayer(const std::string& name) const {
  for (const Node& node : nodes_) {
    if (node.layer->name() == name) return node.layer.get();
  }
  return nullptr;
}

int64_t BuiltNet::batch_size() const {
  int64_t from_data = 0;
  for (const Node& node : nodes_) from_data = std::max(from_data, node.layer->batch_size());
  if (from_data > 0) return from_data;
  const Blob* first = nodes_.front().top.empty() ? nullptr : nodes_.front().top[0];
  return first && first->num_axes() > 0 ? first->dim(0) : 1;
}

BuiltNet::Memory BuiltNet::memory() const {
  Memory memory;
  memory.weights = memory.weight_gradients = layout_.size() * sizeof(float);
  memory.workspace = scratch_->bytes();
  memory.activation_gradients = blob_memory_.bytes();  // and of values that share it
  for (const Node& node : nodes_) {
    for (const Blob* top : node.top) {
      const bool in_place = std::count(node.bottom.begin(), node.bottom.end(), top) > 0;
      if (in_place) continue;
      const size_t bytes = top->count() * sizeof(float);
      if (!node.layer->SharesData() && !blob_memory_.HoldsValues(top)) memory.activations += bytes;
      if (node.need_backward && !blob_memory_.HoldsGradient(top)) {
        memory.activation_gradients += bytes;
      }
    }
  }
  return memory;
}

size_t BuiltNet::activation_bytes() const {
  const Memory bytes = memory();
  return bytes.activations + bytes.activation_gradients + bytes.workspace;
}

}  // namespace millrace::inline nn
