#include <algorithm>

#include "base/module.h"
#include "base/registration.h"
#include "base/text/format.h"
#include "base/text/names.h"
#include "millrace/layer.h"
#include "proto/custom_param.h"

namespace millrace {
namespace {

// Whether the module contrib has layers of this type.
bool IsOfContrib(std::string_view type) {
  static constexpr std::string_view kTypes[] = {
#include "nn/contrib_layers.inc"
  };
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

}  // namespace

double Layer::CustomNumber(const std::string& key, double default_value) const {
  return millrace::CustomNumber(param_.custom_param(), key, default_value);
}

std::string Layer::CustomText(const std::string& key, const std::string& default_value) const {
  return millrace::CustomText(param_.custom_param(), key, default_value);
}

LayerRegistry& LayerRegistry::Get() {
  static LayerRegistry registry;
  return registry;
}

void LayerRegistry::Register(const std::string& type, std::optional<DeviceType> device,
                             Factory factory) {
  const std::lock_guard lock(mutex_);
  if (!factories_[type].emplace(device, std::move(factory)).second) {
    ReportSecondRegistration("layer type", type);
  }
}

const std::map<std::optional<DeviceType>, LayerRegistry::Factory>* LayerRegistry::FindType(
    const std::string& type) const {
  const std::lock_guard lock(mutex_);
  const auto found = factories_.find(type);
  return found == factories_.end() ? nullptr : &found->second;
}

std::string LayerRegistry::WhyNot(const std::string& type, const Device& device) const {
  const auto* by_device = FindType(type);
  if (by_device == nullptr && IsOfContrib(type)) {
    const std::string reason = LoadModule("contrib");
    if (!reason.empty()) return StrCat("layer type ", Quoted(type), " is in ", reason);
    by_device = FindType(type);
  }
  if (by_device == nullptr && type == "Python") {
    return "a layer in Python, expected the Python module millrace: --plugins=python";
  }
  if (by_device == nullptr) {
    return StrCat("there is no layer type ", Quoted(type), " on ", device.name());
  }
  if (by_device->count(device.type()) || by_device->count(std::nullopt)) return "";
  std::string others;
  for (const auto& [other, made] : *by_device) {
    others += StrCat(others.empty() ? "" : ", ", DeviceTypeName(*other));
  }
  return StrCat("a layer of type ", type, " cannot run on ", device.name(),
                ": this build has code for it on ", others, " only");
}

std::unique_ptr<Layer> LayerRegistry::Create(const caffe::LayerParameter& param,
                                             const LayerContext& context) const {
  const std::string reason = WhyNot(param.type(), *context.device);
  const auto* const by_device = FindType(param.type());
  if (!reason.empty() && by_device != nullptr) throw FieldError("type", reason);
  if (!reason.empty()) {
    throw FieldError("type", reason, "; known: ", Joined(Types(context.device->type())));
  }
  auto factory = by_device->find(context.device->type());
  if (factory == by_device->end()) factory = by_device->find(std::nullopt);
  return factory->second(param, context);
}

std::vector<std::string> LayerRegistry::Types(DeviceType device) const {
  LoadModule("contrib");
  const std::lock_guard lock(mutex_);
  std::vector<std::string> types;
  for (const auto& [type, by_device] : factories_) {
    if (by_device.count(device) || by_device.count(std::nullopt)) types.push_back(type);
  }
  return types;
}

bool LayerRegistry::HasCodeFor(DeviceType device) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(factories_.begin(), factories_.end(),
                     [&](const auto& each) { return each.second.count(device) > 0; });
}

}  // namespace millrace
