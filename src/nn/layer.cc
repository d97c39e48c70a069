#include "nn/layer.h"

namespace millrace {

LayerRegistry& LayerRegistry::Get() {
  static LayerRegistry registry;
  return registry;
}

void LayerRegistry::Register(const std::string& type, DeviceType device, Factory factory) {
  factories_[{type, device}] = std::move(factory);
}

std::unique_ptr<Layer> LayerRegistry::Create(const caffe::LayerParameter& param,
                                             const LayerContext& context, DeviceType device) const {
  const auto found = factories_.find({param.type(), device});
  if (found == factories_.end()) {
    std::string known;
    for (const std::string& type : Types(device)) known += (known.empty() ? "" : ", ") + type;
    throw FieldError("type", "there is no layer type '", param.type(), "' on ",
                     DeviceTypeName(device), "; known: ", known);
  }
  return found->second(param, context);
}

std::vector<std::string> LayerRegistry::Types(DeviceType device) const {
  std::vector<std::string> types;
  for (const auto& [key, factory] : factories_) {
    if (key.second == device) types.push_back(key.first);
  }
  return types;
}

}  // namespace millrace
