#include "nn/net_param.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text/format.h"
#include "proto/upgrade.h"

namespace millrace::inline nn {

std::string PlaceOf(const SourceMap& source, const PlacedLayer& layer, const std::string& field) {
  const std::string place =
      layer.path.empty()
          ? source.file()
          : source.Where(field.empty() ? layer.path : StrCat(layer.path, ".", field));
  return StrCat(place, place.empty() ? "" : ": ", "layer ", Quoted(layer.name_in_file), ": ", field,
                field.empty() ? "" : ": ");
}

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

namespace {

// Upgrades `net` and adds what is to be told about that to `notices`.
NetUpgrade Upgraded(const SourceMap& source, caffe::NetParameter* net,
                    std::vector<std::string>* notices) {
  NetUpgrade upgrade = UpgradeNet(source, net);
  if (notices == nullptr) return upgrade;
  const std::string& file = source.file();
  for (const std::string& change : upgrade.changes) {
    notices->push_back(StrCat(file, file.empty() ? "" : ": ", "read ", change,
                              ", a form of earlier versions; upgrade_net_proto_text rewrites it"));
  }
  notices->insert(notices->end(), upgrade.problems.begin(), upgrade.problems.end());
  notices->insert(notices->end(), upgrade.ignored.begin(), upgrade.ignored.end());
  return upgrade;
}

}  // namespace

std::vector<PlacedLayer> SelectLayers(const caffe::NetParameter& net, const caffe::NetState& state,
                                      const SourceMap& source, std::vector<std::string>* notices) {
  caffe::NetParameter today = net;
  const NetUpgrade upgrade = Upgraded(source, &today, notices);
  std::vector<PlacedLayer> selected;
  for (int i = 0; i < today.layer_size(); ++i) {
    caffe::LayerParameter& layer = *today.mutable_layer(i);
    if (layer.include_size() > 0 && layer.exclude_size() > 0) {
      throw Error(PlaceOf(source, {layer, upgrade.layer_paths[i]}, "exclude"),
                  "give include or exclude rules, not both");
    }
    const auto meets = [&](const caffe::NetStateRule& rule) { return StateMeetsRule(state, rule); };
    const bool included = layer.include_size() > 0
                              ? std::any_of(layer.include().begin(), layer.include().end(), meets)
                              : std::none_of(layer.exclude().begin(), layer.exclude().end(), meets);
    if (included) selected.push_back({std::move(layer), upgrade.layer_paths[i]});
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
        throw Error(PlaceOf(source, layers[i], StrCat("bottom[", j, "]")), "there is no blob ",
                    Quoted(layer.bottom(j)), " at this point of the net");
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
      split.name_in_file = split.param.name();
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

void GiveUniqueNames(std::vector<PlacedLayer>* layers) {
  std::set<std::string> taken;
  for (const PlacedLayer& layer : *layers) taken.insert(layer.name_in_file);
  std::set<std::string> seen;
  std::map<std::pair<bool, std::string>, int> numbers;  // the last one, by whether named and base
  for (PlacedLayer& layer : *layers) {
    const bool unnamed = layer.name_in_file.empty();
    if (!unnamed && seen.insert(layer.name_in_file).second) continue;
    const std::string& base = unnamed ? layer.param.type() : layer.name_in_file;
    int& number = numbers.try_emplace({unnamed, base}, unnamed ? 0 : 1).first->second;
    std::string name;
    do {
      name = StrCat(base, "#", ++number);
    } while (!taken.insert(name).second);
    layer.param.set_name(name);
  }
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

}  // namespace millrace::inline nn
