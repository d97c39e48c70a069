// Construction of a net: creates the layers in order, converts memory orders where they differ,
// lays out the parameters and routes the gradients.
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/text/names.h"
#include "nn/layers/layer_interfaces.h"
#include "nn/layout.h"
#include "nn/net.h"
#include "proto/custom_param.h"

namespace millrace::inline nn {
namespace {

// Runs `body`. Its errors get the prefix "file:line: layer 'name': field: "; a lack of memory,
// which is no fault of the file, names the layer only.
template <typename Body>
void Guard(const SourceMap& source, const PlacedLayer& layer, Body body) {
  try {
    body();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory("layer '", layer.param.name(), "' (", layer.param.type(),
                      "): ", error.what());
  } catch (const FieldError& error) {
    throw Error(PlaceOf(source, layer, error.field()), error.what());
  } catch (const Error& error) {
    throw Error(PlaceOf(source, layer), error.what());
  }
}

// Throws Error that names all layers that the device has no code for, so that a user sees at once
// what of a net is not supported.
void CheckTypes(const std::vector<PlacedLayer>& layers, const Device& device,
                const SourceMap& source) {
  std::string missing;
  bool unknown = false;
  for (const PlacedLayer& layer : layers) {
    const std::string& type = layer.param.type();
    if (type.empty()) throw Error(PlaceOf(source, layer, "type"), "missing");
    const std::string reason = LayerRegistry::Get().WhyNot(type, device);
    if (reason.empty()) continue;
    missing += StrCat(missing.empty() ? "" : "; also ", PlaceOf(source, layer, "type"), reason);
    unknown |= reason.starts_with("there is no");
  }
  if (missing.empty()) return;
  const std::string known = Joined(LayerRegistry::Get().Types(device.type()));
  throw Error(missing, unknown && !known.empty() ? "; known: " + known : "");
}

// What Caffe calls a top that the net file does not name. No layer can read it, and it is no
// output.
constexpr const char* kAutomaticTop = "(automatic)";

void CheckCount(const char* what, int count, int least, int most) {
  if (count >= least && count <= most) return;
  const std::string expected = least == most ? StrCat(least)
                               : most == std::numeric_limits<int>::max()
                                   ? StrCat("at least ", least)
                                   : StrCat(least, " to ", most);
  throw FieldError(what, count, " given, expected ", expected);
}

void CheckParamSpecs(const Layer& layer, size_t params) {
  if (static_cast<size_t>(layer.param().param_size()) > params) {
    throw FieldError(StrCat("param[", params, "]"), layer.param().param_size(),
                     " given, but the layer has ", params, " learnable blobs");
  }
}

}  // namespace

void CheckLayerTypes(const caffe::NetParameter& param, const SourceMap& source,
                     const caffe::NetState& state, const Device& device) {
  CheckTypes(SelectLayers(param, state, source), device, source);
}

BuiltNet::BuiltNet(const caffe::NetParameter& param, const SourceMap& source,
                   const BuiltNetOptions& options)
    : name_(param.name()),
      debug_info_(param.debug_info()),
      options_(options),
      force_backward_(param.force_backward()),
      blob_memory_(options.device->memory()),
      queue_(options.device->MakeQueue(QueuePriority::kNormal)) {
  GpuSettingsOf(*queue_) = options.gpu;
  scratch_.emplace(*queue_);
  context_.device = options.device;
  context_.queue = queue_.get();
  context_.phase = options.state.phase();
  context_.seed = options.seed;
  context_.scratch = &*scratch_;
  context_.data = options.data;
  context_.data_scope = options.data_scope;
  context_.data_consumer = options.data_consumer;
  context_.pass = &pass_;
  context_.update_lock = &update_lock_;
  context_.collective = &collective_;
  Build(param, source);
}

void BuiltNet::Build(const caffe::NetParameter& param, const SourceMap& source) {
  if (options_.plain_blobs) {
    options_.layout = Layout::kPlain;
    options_.keep_activations = true;
    options_.fuse = false;
  }
  std::vector<PlacedLayer> layers =
      InsertSplits(SelectLayers(param, options_.state, source, &notices_), source);
  GiveUniqueNames(&layers);
  CheckTypes(layers, device(), source);
  context_.preferred_layout =
      options_.layout ? *options_.layout : ChooseLayout(layers, device().type());
  multipliers_by_share_name_ = SharedMultipliers(layers);
  // Counts only the layers of the net description: random streams must not depend on the
  // conversions that this processor's memory orders need.
  context_.layer_id = 0;
  for (const PlacedLayer& layer : layers) {
    AddLayer(layer, source);
    ++context_.layer_id;
  }

  // Blobs without a consumer are outputs, in plain order for the callers.
  std::set<std::string> consumed;
  struct Top {
    std::string name;
    float loss_weight;
    std::string layer_type;
  };
  std::vector<Top> tops;
  for (const Node& node : nodes_) {
    for (const std::string& name : node.bottom_names) consumed.insert(name);
    for (size_t i = 0; i < node.top.size(); ++i) {
      if (node.top_names[i] == kAutomaticTop) continue;
      // A layer that works in place writes its blob again.
      consumed.erase(node.top_names[i]);
      std::erase_if(tops, [&](const auto& top) { return top.name == node.top_names[i]; });
      tops.push_back({node.top_names[i], node.loss_weight[i], node.layer->param().type()});
    }
  }
  for (const auto& [name, weight, type] : tops) {
    if (consumed.count(name)) continue;
    if (blob_by_name_[name]->layout() != Layout::kPlain) {
      AddReorder(name, Layout::kPlain);
      found_by_name_[name] = blob_by_name_[name];
    }
    outputs_.push_back({name, blob_by_name_[name], weight, type});
  }
  std::sort(outputs_.begin(), outputs_.end(),
            [](const Output& a, const Output& b) { return a.name < b.name; });
  MarkBackward(source);
  MarkReshapes();
  FuseLayers();
  ShareBlobMemory();
  FindCompleteGradients();
  AllocateLosses();
}

BuiltNet::~BuiltNet() = default;

void BuiltNet::AddReorder(const std::string& blob_name, Layout layout) {
  Blob* from = blob_by_name_[blob_name];
  caffe::LayerParameter param;
  param.set_name(blob_name + "_reorder");
  param.set_type("Reorder");
  param.add_bottom(blob_name);
  param.add_top(blob_name);
  LayerContext context = context_;
  context.preferred_layout = layout;
  Node node;
  node.layer = LayerRegistry::Get().Create(param, context);
  node.bottom = {from};
  blobs_.push_back(std::make_unique<Blob>(device().memory()));
  node.top = {blobs_.back().get()};
  node.bottom_names = node.top_names = {blob_name};
  node.loss_weight = {0};
  blob_by_name_[blob_name] = node.top[0];
  node.layer->Reshape(node.bottom, node.top);
  nodes_.push_back(std::move(node));
  params_of_node_.emplace_back();
}

void BuiltNet::NoticeIgnoredFields(const PlacedLayer& placed, const Layer& layer,
                                   const SourceMap& source) {
  std::set<std::string> known = layer.fields();
  known.insert("custom_param");
  std::vector<const google::protobuf::FieldDescriptor*> set;
  layer.param().GetReflection()->ListFields(layer.param(), &set);
  for (const auto* field : set) {
    const std::string& name = field->name();
    if (!name.ends_with("_param") || known.count(name)) continue;
    notices_.push_back(StrCat(PlaceOf(source, placed, name), "ignored, a layer of type ",
                              layer.type(), " has no such parameters"));
  }
}

void BuiltNet::AddLayer(const PlacedLayer& placed, const SourceMap& source) {
  Guard(source, placed, [&] {
    caffe::LayerParameter param = placed.param;
    // As in Caffe, a layer may state a phase of its own.
    if (!param.has_phase()) param.set_phase(context_.phase);
    LayerContext context = context_;
    context.phase = param.phase();
    Node node;
    node.path = placed.path;
    node.name_in_file = placed.name_in_file;
    node.layer = MakeLayer(param, context);
    Layer& layer = *node.layer;
    NoticeIgnoredFields(placed, layer, source);
    CheckCustomParams(param.custom_param(), layer.custom_params(),
                      "a layer of type " + layer.type());
    const Arity arity = layer.arity();
    CheckCount("bottom", param.bottom_size(), arity.min_bottom, arity.max_bottom);
    const bool auto_top = layer.AutoTop() && param.top_size() < arity.min_top;
    if (!auto_top) CheckCount("top", param.top_size(), arity.min_top, arity.max_top);
    if (param.propagate_down_size() > 0) {
      CheckCount("propagate_down", param.propagate_down_size(), param.bottom_size(),
                 param.bottom_size());
    }

    for (int i = 0; i < param.bottom_size(); ++i) {
      const std::string& name = param.bottom(i);
      const Layout wanted = layer.BottomLayout(i, *blob_by_name_[name]);
      if (wanted != blob_by_name_[name]->layout()) AddReorder(name, wanted);
      node.bottom.push_back(blob_by_name_[name]);
      node.bottom_names.push_back(name);
    }
    for (int i = 0; i < param.top_size() || (auto_top && i < arity.min_top); ++i) {
      const bool automatic = i >= param.top_size();
      const std::string name = automatic ? kAutomaticTop : param.top(i);
      node.top_names.push_back(name);
      if (automatic) {
        blobs_.push_back(std::make_unique<Blob>(device().memory()));
        node.top.push_back(blobs_.back().get());
        continue;
      }
      if (i < param.bottom_size() && name == param.bottom(i)) {
        if (!layer.MayWorkInPlace()) {
          throw FieldError(StrCat("top[", i, "]"), "a layer of type ", layer.type(),
                           " cannot work in place: give the top a name of its own");
        }
        StopSharing(node.bottom[i]);
        node.top.push_back(node.bottom[i]);
        found_by_name_[name] = node.top.back();
        continue;
      }
      if (blob_by_name_.count(name)) {
        throw FieldError(StrCat("top[", i, "]"), "blob '", name, "' is made by an earlier layer");
      }
      node.top.push_back(AddBlob(name));
      blob_by_name_[name] = found_by_name_[name] = node.top.back();
    }
    if (param.loss_weight_size() > 0) {
      const int tops = static_cast<int>(node.top.size());
      CheckCount("loss_weight", param.loss_weight_size(), tops, tops);
    }

    SetUpLayer(&node);
    for (size_t i = 0; i < node.top.size(); ++i) {
      node.loss_weight.push_back(static_cast<int>(i) < param.loss_weight_size()
                                     ? param.loss_weight(i)
                                     : layer.DefaultLossWeight(i));
    }
    CheckParamSpecs(layer, layer.params().size());
    nodes_.push_back(std::move(node));
    params_of_node_.emplace_back();
    AddParams(&nodes_.back());
    FinishLayer(&nodes_.back());
  });
}

void BuiltNet::StopSharing(const Blob* blob) {
  for (Node& node : nodes_) {
    if (std::count(node.top.begin(), node.top.end(), blob) == 0) continue;
    if (node.layer->SharesData()) node.layer->StopSharing(node.top);
  }
}

void BuiltNet::AddParams(Node* node) {
  Layer& layer = *node->layer;
  const size_t blobs = layer.param().blobs_size();
  if (blobs > 0 && blobs != layer.params().size()) {
    throw FieldError("blobs", blobs, " given, expected none or ", layer.params().size());
  }
  for (size_t i = 0; i < layer.params().size(); ++i) {
    Param* param = &layer.params()[i];
    const int index = static_cast<int>(i);
    const caffe::ParamSpec spec =
        index < layer.param().param_size() ? layer.param().param(index) : caffe::ParamSpec();
    const auto shared = param_by_share_name_.find(spec.name());
    if (spec.name().empty() || shared == param_by_share_name_.end()) {
      NetParam& own = AddOwnParam(param, StrCat(layer.name(), "/", i), spec);
      if (blobs > 0) own.initial = &layer.param().blobs(index);
    } else {
      ShareParam(param, StrCat("param[", i, "]"), spec, shared->second);
    }
  }
}

NetParam& BuiltNet::AddOwnParam(Param* param, const std::string& entry_name,
                                const caffe::ParamSpec& spec) {
  const int index = static_cast<int>(params_.size());
  Multipliers multipliers{spec.lr_mult(), spec.decay_mult()};
  if (!spec.name().empty()) {
    param_by_share_name_[spec.name()] = index;
    // Includes multipliers that only a later layer states.
    const auto shared = multipliers_by_share_name_.find(spec.name());
    if (shared != multipliers_by_share_name_.end()) multipliers = shared->second;
  }
  NetParam net_param;
  net_param.entry = former_ != nullptr ? layout_.Find(entry_name)  // others may read it meanwhile
                                       : layout_.Add(entry_name, param->blob->shape());
  net_param.lr_mult = multipliers.lr;
  net_param.decay_mult = multipliers.decay;
  net_param.owner = param;
  net_param.display_name = spec.name().empty() ? entry_name : spec.name();
  param->wanted = net_param.lr_mult != 0;
  params_of_node_.back().push_back(index);
  params_.push_back(net_param);
  return params_.back();
}

void BuiltNet::ShareParam(Param* param, const std::string& field, const caffe::ParamSpec& spec,
                          int index) {
  const NetParam& owner = params_[index];
  const Shape& owner_shape = layout_.entries()[owner.entry].shape;
  const bool fits = spec.share_mode() == caffe::ParamSpec::PERMISSIVE
                        ? ShapeCount(owner_shape) == param->blob->count()
                        : owner_shape == param->blob->shape();
  if (!fits) {
    throw FieldError(field + ".name", "'", spec.name(), "' is shared with shape ",
                     ShapeText(owner_shape), ", but this layer needs ",
                     ShapeText(param->blob->shape()));
  }
  const auto check_mult = [&](bool given, float value, float owners, const char* name) {
    if (given && value != owners) {
      throw FieldError(StrCat(field, ".", name), value, " given, but the parameter '", spec.name(),
                       "' that it shares has ", owners);
    }
  };
  check_mult(spec.has_lr_mult(), spec.lr_mult(), owner.lr_mult, "lr_mult");
  check_mult(spec.has_decay_mult(), spec.decay_mult(), owner.decay_mult, "decay_mult");
  param->has_gradient = owner.owner->has_gradient;
  param->wanted = owner.owner->wanted;
  params_of_node_.back().push_back(index);
}

void BuiltNet::FinishLayer(Node* node) {
  for (size_t i = 0; i < node->bottom_names.size(); ++i) {
    const bool asked = node->layer->param().propagate_down_size() > 0;
    const bool needs = asked ? node->layer->param().propagate_down(i)
                             : blob_needs_backward_[node->bottom_names[i]];
    node->propagate_down.push_back((needs || force_backward_) && node->layer->AllowBackward(i));
  }
  node->need_backward =
      std::count(node->propagate_down.begin(), node->propagate_down.end(), true) > 0;
  for (const Param& param : node->layer->params()) node->need_backward |= param.wanted;
  for (const std::string& name : node->top_names) blob_needs_backward_[name] = node->need_backward;
}

}  // namespace millrace::inline nn
