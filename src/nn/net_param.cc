#include "nn/net_param.h"

#include <algorithm>
#include <map>
#include <set>

namespace millrace {
namespace {

std::string Place(const SourceMap& source, int index, const std::string& field = "") {
  return source.Where(StrCat("layer[", index, "]", field.empty() ? "" : ".", field));
}

PlacedLayer InputLayer(const caffe::NetParameter& net, const SourceMap& source) {
  PlacedLayer layer;
  layer.param.set_name("input");
  layer.param.set_type("Input");
  const bool by_shape = net.input_shape_size() > 0;
  const int expected = by_shape ? net.input_size() : 4 * net.input_size();
  const int given = by_shape ? net.input_shape_size() : net.input_dim_size();
  if (given != expected) {
    const char* field = by_shape ? "input_shape" : "input_dim";
    throw Error(source.Where(field), ": ", field, ": ", given, " given, expected ", expected,
                " for ", net.input_size(), " input blobs");
  }
  for (int i = 0; i < net.input_size(); ++i) {
    layer.param.add_top(net.input(i));
    caffe::BlobShape* shape = layer.param.mutable_input_param()->add_shape();
    if (by_shape) {
      *shape = net.input_shape(i);
    } else {
      for (int axis = 0; axis < 4; ++axis) shape->add_dim(net.input_dim(4 * i + axis));
    }
  }
  return layer;
}

}  // namespace

bool StateMeetsRule(const caffe::NetState& state, const caffe::NetStateRule& rule) {
  if (rule.has_phase() && rule.phase() != state.phase()) return false;
  if (rule.has_min_level() && state.level() < rule.min_level()) return false;
  if (rule.has_max_level() && state.level() > rule.max_level()) return false;
  const auto has_stage = [&](const std::string& stage) {
    return std::find(state.stage().begin(), state.stage().end(), stage) != state.stage().end();
  };
  return std::all_of(rule.stage().begin(), rule.stage().end(), has_stage) &&
         std::none_of(rule.not_stage().begin(), rule.not_stage().end(), has_stage);
}

std::vector<PlacedLayer> SelectLayers(const caffe::NetParameter& net, const caffe::NetState& state,
                                      const SourceMap& source) {
  if (net.layers_size() > 0) {
    throw Error(source.Where("layers"),
                ": layers: the format of before 2014's change; rewrite each as `layer` with a "
                "string `type` (Caffe's upgrade_net_proto_text does)");
  }
  std::vector<PlacedLayer> selected;
  if (net.input_size() > 0) selected.push_back(InputLayer(net, source));
  for (int i = 0; i < net.layer_size(); ++i) {
    const caffe::LayerParameter& layer = net.layer(i);
    if (layer.include_size() > 0 && layer.exclude_size() > 0) {
      throw Error(Place(source, i, "exclude"), ": layer '", layer.name(),
                  "': give include or exclude rules, not both");
    }
    const auto meets = [&](const caffe::NetStateRule& rule) { return StateMeetsRule(state, rule); };
    const bool included = layer.include_size() > 0
                              ? std::any_of(layer.include().begin(), layer.include().end(), meets)
                              : std::none_of(layer.exclude().begin(), layer.exclude().end(), meets);
    if (included) selected.push_back({layer, i});
  }
  if (selected.empty()) {
    throw Error(source.Where("layer"), ": no layer is left for phase ",
                caffe::Phase_Name(state.phase()));
  }
  return selected;
}

std::vector<PlacedLayer> InsertSplits(const std::vector<PlacedLayer>& layers,
                                      const SourceMap& source) {
  // A top is identified by (layer, index): layers that work in place repeat names.
  using Top = std::pair<int, int>;
  std::map<std::string, Top> latest;
  std::map<Top, int> consumers;
  std::map<std::pair<int, int>, Top> producer_of_bottom;
  std::map<Top, float> loss_weight;

  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    const caffe::LayerParameter& layer = layers[i].param;
    for (int j = 0; j < layer.bottom_size(); ++j) {
      const auto found = latest.find(layer.bottom(j));
      if (found == latest.end()) {
        throw Error(Place(source, layers[i].source_index, StrCat("bottom[", j, "]")), ": layer '",
                    layer.name(), "': bottom: there is no blob '", layer.bottom(j),
                    "' at this point of the net");
      }
      producer_of_bottom[{i, j}] = found->second;
      ++consumers[found->second];
    }
    for (int j = 0; j < layer.top_size(); ++j) {
      latest[layer.top(j)] = {i, j};
      if (j < layer.loss_weight_size() && layer.loss_weight(j) != 0) {
        // The objective itself consumes the blob.
        loss_weight[{i, j}] = layer.loss_weight(j);
        if (consumers.count({i, j}) == 0) consumers[{i, j}] = 0;
      }
    }
  }
  for (auto& [top, weight] : loss_weight) {
    if (consumers[top] > 0) ++consumers[top];
  }

  std::map<Top, int> next_split;
  const auto split_base = [&](Top top) {
    const caffe::LayerParameter& layer = layers[top.first].param;
    return StrCat(layer.top(top.second), "_", layer.name(), "_", top.second, "_split");
  };
  std::vector<PlacedLayer> result;
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    PlacedLayer layer = layers[i];
    for (int j = 0; j < layer.param.bottom_size(); ++j) {
      const Top top = producer_of_bottom[{i, j}];
      if (consumers[top] > 1) {
        layer.param.set_bottom(j, StrCat(split_base(top), "_", next_split[top]++));
      }
    }
    for (int j = 0; j < layer.param.top_size(); ++j) {
      if (consumers[{i, j}] > 1 && loss_weight.count({i, j})) layer.param.set_loss_weight(j, 0);
    }
    result.push_back(layer);
    for (int j = 0; j < layers[i].param.top_size(); ++j) {
      const Top top{i, j};
      if (consumers[top] <= 1) continue;
      PlacedLayer split;
      split.param.set_name(split_base(top));
      split.param.set_type("Split");
      split.param.add_bottom(layers[i].param.top(j));
      for (int k = 0; k < consumers[top]; ++k) {
        split.param.add_top(StrCat(split_base(top), "_", k));
      }
      if (const auto weight = loss_weight.find(top); weight != loss_weight.end()) {
        // The objective takes the first copy, the consumers take the others.
        split.param.mutable_loss_weight()->Resize(consumers[top], 0);
        split.param.set_loss_weight(0, weight->second);
        next_split[top] = 1;
      }
      result.push_back(std::move(split));
    }
  }
  return result;
}

std::map<std::string, Multipliers> SharedMultipliers(const std::vector<PlacedLayer>& layers) {
  std::map<std::string, Multipliers> shared;
  std::set<std::string> has_lr, has_decay;
  for (const PlacedLayer& layer : layers) {
    for (const caffe::ParamSpec& spec : layer.param.param()) {
      const std::string& name = spec.name();
      if (name.empty()) continue;
      if (spec.has_lr_mult() && has_lr.insert(name).second) shared[name].lr = spec.lr_mult();
      if (spec.has_decay_mult() && has_decay.insert(name).second) {
        shared[name].decay = spec.decay_mult();
      }
    }
  }
  return shared;
}

}  // namespace millrace
