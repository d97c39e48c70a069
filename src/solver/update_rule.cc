#include "solver/update_rule.h"

#include <glog/logging.h>

#include "nn/net.h"
#include "proto/parse.h"

namespace millrace {

std::vector<UpdateParam> UpdateParamsOf(const Net& net) {
  std::vector<UpdateParam> params;
  for (const NetParam& param : net.params()) {
    const ParamEntry& entry = net.layout().entries()[param.entry];
    params.push_back({param.display_name, entry.shape, entry.offset, entry.count, param.lr_mult,
                      param.decay_mult});
  }
  return params;
}

UpdateRule::UpdateRule(const std::vector<UpdateParam>& params, int64_t size, int slots)
    : params_(params),
      size_(size),
      slots_(slots),
      history_(HostMemory(), slots * size * sizeof(float)) {
  for (const UpdateParam& param : params_) {
    CHECK_EQ(param.count, ShapeCount(param.shape)) << param.name;
    CHECK_LE(param.offset + param.count, size_) << param.name;
  }
  HostMemory().Fill(history_.get(), 0, history_.bytes());
}

void UpdateRule::ExportHistory(History* history) const {
  history->Clear();
  for (int slot = 0; slot < slots_; ++slot) {
    for (const UpdateParam& param : params_) {
      Blob blob(param.shape);
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
  for (int i = 0; i < history.size(); ++i) {
    const UpdateParam& param = params_[i % params_.size()];
    Blob blob(param.shape);
    blob.BindData(this->history(i / static_cast<int>(params_.size())) + param.offset);
    blob.FromProto(history[i], StrCat(what, ": history of '", param.name, "'"));
  }
}

UpdateRuleRegistry& UpdateRuleRegistry::Get() {
  static UpdateRuleRegistry registry;
  return registry;
}

void UpdateRuleRegistry::Register(const std::string& name, Factory factory) {
  CHECK(factories_.emplace(name, std::move(factory)).second) << name << " registered twice";
}

void UpdateRuleRegistry::CheckKnown(const std::string& name) const {
  if (factories_.count(name)) return;
  std::string known;
  for (const auto& [rule, factory] : factories_) known += StrCat(known.empty() ? "" : ", ", rule);
  throw FieldError("type", "there is no update rule \"", name, "\"; known: ", known);
}

std::unique_ptr<UpdateRule> UpdateRuleRegistry::Create(const caffe::SolverParameter& param,
                                                       const std::vector<UpdateParam>& params,
                                                       int64_t size) const {
  CheckKnown(param.type());
  return factories_.at(param.type())(param, params, size);
}

}  // namespace millrace
