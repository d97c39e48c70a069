#include "solver/update_rule.h"

#include <glog/logging.h>

#include "nn/net.h"
#include "proto/parse.h"

namespace millrace {

std::vector<UpdateParam> UpdateParamsOf(const nn::Net& net) {
  std::vector<UpdateParam> params;
  for (const nn::NetParam& param : net.params()) {
    const ParamEntry& entry = net.layout().entries()[param.entry];
    params.push_back({param.display_name, entry.shape, entry.offset, entry.count, param.lr_mult,
                      param.decay_mult});
  }
  return params;
}

UpdateRule::UpdateRule(const std::vector<UpdateParam>& params, int64_t size, int slots,
                       Queue& queue)
    : queue_(queue),
      params_(params),
      size_(size),
      slots_(slots),
      history_(memory(), slots * size * sizeof(float)) {
  for (const UpdateParam& param : params_) {
    CHECK_EQ(param.count, ShapeCount(param.shape)) << param.name;
    CHECK_LE(param.offset + param.count, size_) << param.name;
  }
  memory().Fill(history_.get(), 0, history_.bytes());
}

UpdateRule::~UpdateRule() {
  try {
    queue_.Synchronize();
  } catch (const Error&) {
    // The device has failed, as its users have noticed, and accesses no memory any more.
  }
}

void UpdateRule::ExportHistory(History* history) const {
  queue_.Synchronize();
  history->Clear();
  for (int slot = 0; slot < slots_; ++slot) {
    for (const UpdateParam& param : params_) {
      Blob blob(param.shape, memory());
      blob.BindData(this->history(slot) + param.offset);
      blob.ToProto(history->Add(), false);
    }
  }
}

void UpdateRule::ImportHistory(const History& history, const std::string& what) {
  if (history.size() != history_blobs()) {
    throw Error(what, ": holds the history of ", history.size(), " blobs, expected ",
                history_blobs());
  }
  queue_.Synchronize();
  for (int i = 0; i < history.size(); ++i) {
    const UpdateParam& param = params_[i % params_.size()];
    Blob blob(param.shape, memory());
    blob.BindData(this->history(i / static_cast<int>(params_.size())) + param.offset);
    blob.FromProto(history[i], StrCat(what, ": history of '", param.name, "'"));
  }
}

UpdateRuleRegistry& UpdateRuleRegistry::Get() {
  static UpdateRuleRegistry registry;
  return registry;
}

void UpdateRuleRegistry::Register(const std::string& name, DeviceType device, Factory factory) {
  CHECK(factories_[name].emplace(device, std::move(factory)).second)
      << name << " registered twice for " << DeviceTypeName(device);
}

void UpdateRuleRegistry::CheckKnown(const std::string& name) const {
  if (factories_.count(name)) return;
  std::string known;
  for (const auto& [rule, by_device] : factories_) known += StrCat(known.empty() ? "" : ", ", rule);
  throw FieldError("type", "there is no update rule \"", name, "\"; known: ", known);
}

std::unique_ptr<UpdateRule> UpdateRuleRegistry::Create(const caffe::SolverParameter& param,
                                                       const std::vector<UpdateParam>& params,
                                                       int64_t size, Queue& queue) const {
  CheckKnown(param.type());
  const std::map<DeviceType, Factory>& by_device = factories_.at(param.type());
  const auto found = by_device.find(queue.device().type());
  if (found == by_device.end()) {
    std::string others;
    for (const auto& [device, factory] : by_device) {
      others += StrCat(others.empty() ? "" : ", ", DeviceTypeName(device));
    }
    throw FieldError("type", "the update rule \"", param.type(), "\" cannot run on ",
                     queue.device().name(), ": this build has code for it on ", others, " only");
  }
  return found->second(param, params, size, queue);
}

}  // namespace millrace
