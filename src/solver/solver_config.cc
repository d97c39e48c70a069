#include "solver/solver_config.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/module.h"
#include "data/sampler.h"
#include "millrace/device.h"
#include "millrace/layer.h"
#include "nn/detection_scores.h"
#include "nn/net_text.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"
#include "proto/upgrade.h"
#include "solver/lr_policy.h"
#include "solver/stop_conditions.h"
#include "solver/strategy_plan.h"
#include "solver/update_rule.h"

namespace millrace::inline solver {

namespace {

// One line for each such setting of a valid solver: the field and its effect.
std::vector<std::string> SolverWarnings(const caffe::SolverParameter& param) {
  std::vector<std::string> lines;
  const auto warn = [&](bool wrong, const auto&... parts) {
    if (wrong) lines.push_back(StrCat(parts...));
  };
  warn(!param.has_base_lr(), "base_lr is not given: the learning rate is 0");
  warn(!param.has_max_iter(), "max_iter is not given: the run ends before its first iteration");
  warn(param.base_lr() < 0, "base_lr is ", param.base_lr(), ": the weights climb the loss");
  warn(param.momentum() < 0 || param.momentum() >= 1, "momentum is ", param.momentum(),
       ", which is not from 0 to less than 1: training is unlikely to converge");
  warn(param.weight_decay() < 0, "weight_decay is ", param.weight_decay(),
       ": the weights grow without bound");

  const std::string& policy = param.lr_policy();
  const auto missing = [&](const char* field, const char* effect) {
    warn(true, field, " is not given, lr_policy \"", policy, "\" takes it as 0: ", effect);
  };
  const bool falls = policy == "step" || policy == "multistep" || policy == "exp";
  if (falls && !param.has_gamma())
    missing("gamma", "the learning rate is 0 from the first step on");
  if (policy == "inv" && !param.has_gamma()) missing("gamma", "the learning rate is constant");
  if (policy == "sigmoid" && !param.has_gamma()) {
    missing("gamma", "the learning rate is half of base_lr");
  }
  if ((policy == "inv" || policy == "poly") && !param.has_power()) {
    missing("power", "the learning rate is constant");
  }
  if (policy == "multistep") {
    const auto& steps = param.stepvalue();
    warn(steps.empty(), "stepvalue is not given: the learning rate is constant");
    warn(std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) != steps.end(),
         "the values of stepvalue do not increase: each takes effect after those before it");
  }
  for (int i = 0; i < param.test_iter_size(); ++i) {
    warn(param.test_iter(i) < 1, "test_iter[", i, "] is ", param.test_iter(i),
         ": the tests of that net have no batches");
  }
  return lines;
}

using caffe::SolverParameter;

void RequireAtLeast(const char* field, int64_t value, int64_t least) {
  if (value < least) throw FieldError(field, value, " given, expected >= ", least);
}

// The text format accepts "nan" and "inf".
void CheckFinite(const SolverParameter& param) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  param.GetReflection()->ListFields(param, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_FLOAT) continue;
    const float value = param.GetReflection()->GetFloat(param, field);
    if (!std::isfinite(value)) throw FieldError(field->name(), value, " is not a finite number");
  }
}

// Checks what stops Caffe, and what would only give weights that are not finite.
void CheckNumbers(const SolverParameter& param) {
  CheckFinite(param);
  RequireAtLeast("iter_size", param.iter_size(), 1);
  RequireAtLeast("average_loss", param.average_loss(), 1);
  const std::string& type = param.regularization_type();
  if (param.weight_decay() != 0 && type != "L1" && type != "L2") {
    throw FieldError("regularization_type", "\"", type, "\" given, expected \"L1\" or \"L2\"");
  }
  LrPolicy{param};
  const std::string& evaluation = param.eval_type();
  if (evaluation != "classification" && evaluation != "detection") {
    throw FieldError("eval_type", "\"", evaluation,
                     "\" given, expected \"classification\" or \"detection\"");
  }
  ApVersionOf(param.ap_version());
}

int32_t WithoutSign(int32_t interval) {
  return static_cast<int32_t>(std::min<int64_t>(std::abs(int64_t{interval}), INT32_MAX));
}

// Gives fields the values to which Caffe's handling of them comes down: it takes remainders by the
// intervals, whose sign has no effect there, and starts no iteration beyond max_iter.
void Normalize(SolverParameter* param) {
  if (param->max_iter() < 0) param->set_max_iter(0);
  if (param->display() < 0) param->set_display(WithoutSign(param->display()));
  if (param->snapshot() < 0) param->set_snapshot(WithoutSign(param->snapshot()));
  // Without test nets; with them, CountTestNets has refused it.
  if (param->test_interval() < 0) param->set_test_interval(0);
}

void ResolveType(SolverParameter* param) {
  const bool upgraded = UpgradeSolver(param);
  param->set_type(param->type());
  try {
    UpdateRuleRegistry::Get().CheckKnown(param->type());
  } catch (const FieldError& error) {
    if (!upgraded) throw;
    throw FieldError("solver_type", error.what());
  }
}

// "a/b.c.prototxt" -> "a/b.c"
std::string WithoutExtension(const std::string& path) {
  return std::filesystem::path(path).replace_extension().string();
}

// As in Caffe, a solver without a prefix saves beside its own file, under its name. If the prefix
// is a folder, it saves in that folder under the same name.
void ResolveSnapshots(const SolverFiles& files, SolverConfig* config) {
  SolverParameter& param = config->param;
  const std::string& file = config->source.file();
  const bool saves = param.snapshot() > 0 || param.snapshot_after_train();
  if (!param.has_snapshot_prefix() || param.snapshot_prefix().empty()) {
    param.set_snapshot_prefix(WithoutExtension(file));
    if (!saves) return;
    config->notices.push_back(
        StrCat("snapshot_prefix is not given; using ", param.snapshot_prefix()));
  } else if (files.is_folder(param.snapshot_prefix())) {
    const std::filesystem::path stem = std::filesystem::path(file).stem();
    param.set_snapshot_prefix((std::filesystem::path(param.snapshot_prefix()) / stem).string());
    config->notices.push_back(
        StrCat("snapshot_prefix is a folder; using ", param.snapshot_prefix()));
  }
  try {
    files.prepare_folder(Dirname(param.snapshot_prefix()));
  } catch (const Error& error) {
    if (saves) throw FieldError("snapshot_prefix", error.what());
  }
}

// A net that is written in the solver file itself.
SolverNet Embedded(const SolverConfig& config, const std::string& field,
                   const caffe::NetParameter& net) {
  return {net, config.source.Nested(field), {}, field, 0};
}

SolverNet FromFile(const SolverConfig& config, const SolverFiles& files, const std::string& field,
                   const std::string& path) {
  if (path.empty()) throw FieldError(field, "is empty, expected the path of a net");
  SolverNet net;
  net.origin = StrCat(field.substr(0, field.find('[')), " file: ", path);
  try {
    files.load_net(path, config.source.file(), &net.param, &net.source);
  } catch (const FieldError& error) {
    throw FieldError(field, error.what());
  }
  return net;
}

void SetState(caffe::Phase phase, const caffe::NetState& wanted, SolverNet* net) {
  net->state.set_phase(phase);
  net->state.MergeFrom(net->param.state());
  net->state.MergeFrom(wanted);
  *net->param.mutable_state() = net->state;
}

void ReadTrainNet(const SolverFiles& files, SolverConfig* config) {
  const SolverParameter& param = config->param;
  const char* const given[] = {param.has_train_net_param() ? "train_net_param" : nullptr,
                               param.has_train_net() ? "train_net" : nullptr,
                               param.has_net_param() ? "net_param" : nullptr,
                               param.has_net() ? "net" : nullptr};
  const char* chosen = nullptr;
  for (const char* field : given) {
    if (!field) continue;
    if (chosen) throw FieldError(field, "given beside ", chosen, ", expected one train net");
    chosen = field;
  }
  if (!chosen) {
    throw FieldError("net", "missing; expected one of net, net_param, train_net, train_net_param");
  }
  if (param.has_train_net_param()) {
    config->train = Embedded(*config, chosen, param.train_net_param());
  } else if (param.has_train_net()) {
    config->train = FromFile(*config, files, chosen, param.train_net());
  } else if (param.has_net_param()) {
    config->train = Embedded(*config, chosen, param.net_param());
  } else {
    config->train = FromFile(*config, files, chosen, param.net());
  }
}

// Returns the number of test nets. Throws FieldError if the fields that must agree do not.
int CountTestNets(const SolverParameter& param) {
  const int named = param.test_net_param_size() + param.test_net_size();
  const bool generic = param.has_net() || param.has_net_param();
  const int count = param.test_iter_size();
  if (count < named || (count > named && !generic)) {
    throw FieldError("test_iter", count, " given for ", named,
                     " test nets, expected one per test net");
  }
  if (param.test_state_size() > 0 && param.test_state_size() != count) {
    throw FieldError("test_state", param.test_state_size(), " given for ", count,
                     " test nets, expected none or one per test net");
  }
  if (count > 0 && param.test_interval() < 1) {
    if (!param.has_test_interval()) {
      throw FieldError("test_interval", "missing; there are test nets (see test_iter)");
    }
    throw FieldError("test_interval", param.test_interval(),
                     " given, expected > 0; there are test nets (see test_iter)");
  }
  return count;
}

void ReadTestNets(const SolverFiles& files, SolverConfig* config) {
  const SolverParameter& param = config->param;
  const int count = CountTestNets(param);
  std::vector<SolverNet>& tests = config->tests;
  for (int i = 0; i < param.test_net_param_size(); ++i) {
    tests.push_back(Embedded(*config, StrCat("test_net_param[", i, "]"), param.test_net_param(i)));
  }
  for (int i = 0; i < param.test_net_size(); ++i) {
    tests.push_back(FromFile(*config, files, StrCat("test_net[", i, "]"), param.test_net(i)));
  }
  // The generic net has been read for training, and no state is merged into it yet.
  tests.resize(count, config->train);
  for (int i = 0; i < count; ++i) {
    tests[i].test_iter = std::max(0, param.test_iter(i));
    SetState(caffe::TEST, i < param.test_state_size() ? param.test_state(i) : caffe::NetState(),
             &tests[i]);
  }
}

void ChooseSeed(SolverConfig* config) {
  if (config->param.random_seed() >= 0) {
    config->seed = config->param.random_seed();
    return;
  }
  // The device may be the same generator after every boot; the clock differs.
  std::random_device device;
  const uint64_t now = std::chrono::system_clock::now().time_since_epoch().count();
  const uint64_t drawn = (uint64_t{device()} << 32 | device()) ^ now;
  config->seed = drawn >> 1;  // fits random_seed
  config->notices.push_back(StrCat("random_seed is not given; drew ", config->seed));
}

void CheckMode(SolverConfig* config) {
  // GPU is the format's default: only an explicit request for it gives a notice.
  if (!config->param.has_solver_mode() || config->param.solver_mode() != SolverParameter::GPU) {
    return;
  }
  const std::string reason = WhyNoGpu(DeviceRegistry::Get().FindDriver(DeviceType::kCuda));
  if (reason.empty()) return;
  config->notices.push_back(StrCat("solver_mode: GPU, but ", reason, "; using the CPU"));
}

}  // namespace

SolverFiles SolverFiles::OnDisk() {
  SolverFiles files;
  files.load_net = [](const std::string& path, const std::string& named_in,
                      caffe::NetParameter* net, SourceMap* source) {
    const std::string found = ResolveBeside(path, named_in);
    if (!FileExists(found)) throw FieldError("net", found, ": ", ErrnoText(ENOENT));
    LoadNet(found, net, source);
  };
  files.is_folder = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::is_directory(path, ignored);
  };
  files.prepare_folder = [](const std::string& folder) {
    if (!folder.empty()) MakeDirectories(folder);
    const std::string here = folder.empty() ? "." : folder;
    if (access(here.c_str(), W_OK) != 0) {
      throw Error(here, ": cannot be written to: ", ErrnoText(errno));
    }
  };
  return files;
}

SolverConfig ParseSolverConfig(const std::string& text, const std::string& name,
                               const SolverFiles& files, const caffe::NetState& train_state) {
  SolverConfig config;
  ParseText(text, name, &config.param, &config.source);
  if (train_state.has_level() || train_state.stage_size() > 0) {
    config.param.mutable_train_state()->MergeFrom(train_state);
  }
  try {
    ResolveType(&config.param);
    CheckNumbers(config.param);
    UpdateRuleRegistry::Get().Check(config.param);
    config.strategy = PlanStrategy(config.param);
    CheckSampler(config.param);
    ReadTrainNet(files, &config);
    ReadTestNets(files, &config);
    const SteadyClock clock;
    StopConditions(config.param, &clock);
    config.warnings = SolverWarnings(config.param);
    Normalize(&config.param);
    SetState(caffe::TRAIN, config.param.train_state(), &config.train);
    ResolveSnapshots(files, &config);
  } catch (const FieldError& error) {
    throw Located(config.source, error);
  }
  ChooseSeed(&config);
  CheckMode(&config);
  return config;
}

SolverConfig LoadSolverConfig(const std::string& path, const caffe::NetState& train_state) {
  return ParseSolverConfig(ReadFile(path), path, SolverFiles::OnDisk(), train_state);
}

std::string WhyNoGpu(DeviceDriver* driver) {
  if (driver == nullptr) {
    const std::string reason = LoadModule("cuda");
    return "this program has no GPU driver" + (reason.empty() ? "" : ": it is in " + reason);
  }
  if (driver->List().empty()) {
    const std::string why = driver->WhyNone();
    return "this machine has no GPU" + (why.empty() ? "" : " (" + why + ")");
  }
  if (!LayerRegistry::Get().HasCodeFor(driver->type())) return "this build has no layers for it";
  return "";
}

}  // namespace millrace::inline solver
