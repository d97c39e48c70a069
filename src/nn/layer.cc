#include "millrace/layer.h"

#include <algorithm>

#include "proto/custom_param.h"

namespace millrace {

double Layer::CustomNumber(const std::string& key, double fallback) const {
  return millrace::CustomNumber(param_.custom_param(), key, fallback);
}

std::string Layer::CustomText(const std::string& key, const std::string& fallback) const {
  return millrace::CustomText(param_.custom_param(), key, fallback);
}

LayerRegistry& LayerRegistry::Get() {
  static LayerRegistry registry;
  return registry;
}

void LayerRegistry::Register(const std::string& type, std::optional<DeviceType> device,
                             Factory factory) {
  factories_[type][device] = std::move(factory);
}

std::unique_ptr<Layer> LayerRegistry::Create(const caffe::LayerParameter& param,
                                             const LayerContext& context) const {
  const DeviceType device = context.device->type();
  const auto found = factories_.find(param.type());
  if (found == factories_.end()) {
    std::string known;
    for (const std::string& type : Types(device)) known += (known.empty() ? "" : ", ") + type;
    throw FieldError("type", "there is no layer type '", param.type(), "' on ",
                     context.device->name(), "; known: ", known);
  }
  const auto& by_device = found->second;
  auto factory = by_device.find(device);
  if (factory == by_device.end()) factory = by_device.find(std::nullopt);
  if (factory == by_device.end()) {
    std::string others;
    for (const auto& [other, made] : by_device) {
      others += StrCat(others.empty() ? "" : ", ", DeviceTypeName(*other));
    }
    throw FieldError("type", "a layer of type ", param.type(), " cannot run on ",
                     context.device->name(), ": this build has code for it on ", others, " only");
  }
  return factory->second(param, context);
}

std::vector<std::string> LayerRegistry::Types(DeviceType device) const {
  std::vector<std::string> types;
  for (const auto& [type, by_device] : factories_) {
    if (by_device.count(device) || by_device.count(std::nullopt)) types.push_back(type);
  }
  return types;
}

bool LayerRegistry::HasCodeFor(DeviceType device) const {
  return std::any_of(factories_.begin(), factories_.end(),
                     [&](const auto& each) { return each.second.count(device) > 0; });
}

}  // namespace millrace
