#include "solver/update_rule.h"

#include <glog/logging.h>

#include <cmath>
#include <utility>

#include "base/registration.h"
#include "base/threads/range_lock.h"
#include "nn/net.h"
#include "proto/custom_param.h"
#include "solver/hogwild_update.h"

namespace millrace {

std::vector<UpdateParam> solver::UpdateParamsOf(const BuiltNet& net) {
  std::vector<UpdateParam> params;
  for (const NetParam& param : net.params()) {
    const ParamEntry& entry = net.layout().entries()[param.entry];
    params.push_back({param.display_name, entry.shape, entry.offset, entry.count, param.lr_mult,
                      param.decay_mult});
  }
  return params;
}

UpdateRule::UpdateRule(const UpdateContext& context, int slots, bool counts)
    : context_(context),
      slots_(slots),
      counts_(counts),
      history_(memory(), slots * context.size * sizeof(float)) {
  for (const UpdateParam& param : params()) {
    CHECK_EQ(param.count, ShapeCount(param.shape)) << param.name;
    CHECK_LE(param.offset + param.count, context_.size) << param.name;
  }
  memory().Fill(history_.get(), 0, history_.bytes());
}

UpdateRule::~UpdateRule() {
  try {
    queue().Synchronize();
  } catch (const Error&) {
    // The device has failed, as its users have noticed, and accesses no memory any more.
  }
}

void UpdateRule::ExportHistory(History* history) const {
  queue().Synchronize();
  history->Clear();
  for (int slot = 0; slot < slots_; ++slot) {
    for (const UpdateParam& param : params()) {
      Blob blob(param.shape, memory());
      blob.BindData(this->history(slot) + param.offset);
      blob.ToProto(history->Add(), false);
    }
  }
  if (counts_ && !history->empty()) (*history)[0].set_updates(updates_);
}

void UpdateRule::ImportHistory(const History& history, const std::string& what, int64_t updates) {
  if (history.size() != history_blobs()) {
    throw Error(what, ": holds the history of ", history.size(), " blobs, expected ",
                history_blobs());
  }
  updates_ = !history.empty() && history[0].has_updates() ? history[0].updates() : updates;
  if (updates_ < 0) throw Error(what, ": updates: ", updates_, " stored, expected >= 0");
  queue().Synchronize();
  for (int i = 0; i < history.size(); ++i) {
    const UpdateParam& param = params()[i % params().size()];
    Blob blob(param.shape, memory());
    blob.BindData(this->history(i / static_cast<int>(params().size())) + param.offset);
    blob.FromProto(history[i], StrCat(what, ": history of '", param.name, "'"));
  }
}

double UpdateRule::CustomNumber(const std::string& key, double default_value) const {
  return millrace::CustomNumber(param().custom_param(), key, default_value);
}

std::string UpdateRule::CustomText(const std::string& key, const std::string& default_value) const {
  return millrace::CustomText(param().custom_param(), key, default_value);
}

float UpdateRule::GradientScale(const float* gradients) {
  const float normalization = 1.0f / static_cast<float>(param().iter_size());
  const float limit = param().clip_gradients();
  if (limit < 0) return normalization;
  double squares = 0;
  for (const UpdateParam& each : params()) {
    if (each.lr_mult != 0) squares += SumOfSquares(each.count, gradients + each.offset);
  }
  const auto norm = static_cast<float>(std::sqrt(squares));
  // A NaN norm does not scale the gradient: the problem shows in the loss.
  if (!(norm > limit)) return normalization;
  solver::LogClipping(norm, limit);
  return limit / norm * normalization;
}

void solver::LogClipping(float norm, float limit) {
  LOG_EVERY_T(INFO, 10) << "Gradient clipping: L2 norm " << norm << " > " << limit << ", scaled by "
                        << limit / norm;
}

double UpdateRule::SumOfSquares(int64_t count, const float* gradients) {
  return millrace::SumOfSquares(count, gradients);
}

void UpdateRule::CallForBlocks(const UpdateParam& param, float* weights,
                               const std::function<void(int64_t begin, int64_t count)>& update) {
  ForLockedBlocks(lock_, weights, param.offset, param.count, std::ref(update));
}

UpdateRuleRegistry& UpdateRuleRegistry::Get() {
  static UpdateRuleRegistry registry;
  return registry;
}

void UpdateRuleRegistry::Register(const std::string& name, DeviceType device, Factory factory) {
  if (!factories_[name].emplace(device, std::move(factory)).second) {
    ReportSecondRegistration("update rule", name);
  }
}

void UpdateRuleRegistry::CheckKnown(const std::string& name) const {
  if (factories_.count(name)) return;
  std::string known;
  for (const auto& [rule, by_device] : factories_) known += StrCat(known.empty() ? "" : ", ", rule);
  throw FieldError("type", "there is no update rule \"", name, "\"; known: ", known);
}

void UpdateRuleRegistry::Check(const caffe::SolverParameter& param) const {
  CheckKnown(param.type());
  if (factories_.at(param.type()).count(DeviceType::kCpu)) Create(param, {}, 0);
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
  std::unique_ptr<UpdateRule> rule = found->second({param, params, size, &queue});
  CheckCustomParams(param.custom_param(), rule->custom_params(),
                    StrCat("the update rule \"", param.type(), "\""));
  return rule;
}

}  // namespace millrace
