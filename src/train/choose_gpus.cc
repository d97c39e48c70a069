#include "train/choose_gpus.h"

#include <glog/logging.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text/parse.h"

namespace millrace::inline train {
namespace {

// First words of an error: the flag with its value.
std::string Flag(const std::string& text) { return StrCat("--gpu=", text, ": "); }

Error Malformed(const std::string& text) {
  return Error(Flag(text), "expected numbers of GPUs, separated by commas, or all");
}

DeviceDriver* DriverOf(const ChosenDriver& chosen) {
  return chosen ? *chosen : DeviceRegistry::Get().FindDriver(DeviceType::kCuda);
}

// Reads "0,2". Every part must be a number.
std::vector<int> Ordinals(const std::string& text) {
  std::vector<int> ordinals;
  for (const std::string& part : Split(text, ',')) {
    const bool digits = !part.empty() && part.size() < 9 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) throw Malformed(text);
    ordinals.push_back(std::stoi(part));
  }
  return ordinals;
}

// The GPUs of `driver`, at least one. Errors begin with `prefix`.
std::set<int> Present(const std::string& prefix, DeviceDriver* driver) {
  if (driver == nullptr) throw Error(prefix, WhyNoGpu(driver));
  std::set<int> present;
  for (const DeviceInfo& info : driver->List()) present.insert(info.ordinal);
  if (present.empty()) {
    const std::string why = driver->WhyNone();
    throw Error(prefix, "this machine has no GPU", why.empty() ? "" : " (" + why + ")");
  }
  return present;
}

std::string Names(const std::set<int>& ordinals) {
  std::string names;
  for (const int each : ordinals) names += StrCat(names.empty() ? "" : ", ", each);
  return names;
}

// The GPUs among `present` that `text` selects, in its order.
std::vector<int> Selected(const std::string& text, const std::set<int>& present) {
  if (text == "all") return {present.begin(), present.end()};
  const std::vector<int> wanted = Ordinals(text);
  std::set<int> chosen;
  for (const int ordinal : wanted) {
    if (!present.contains(ordinal)) {
      throw Error(Flag(text), "this machine has no GPU ", ordinal, "; it has ", Names(present));
    }
    if (!chosen.insert(ordinal).second) {
      throw Error(Flag(text), "GPU ", ordinal, " is given twice");
    }
  }
  return wanted;
}

}  // namespace

std::vector<Device*> ChooseGpus(const std::string& text, ChosenDriver chosen) {
  if (text.empty()) return {};
  if (text != "all") Ordinals(text);  // must be numbers on any machine
  DeviceDriver* const driver = DriverOf(chosen);
  if (const std::string reason = WhyNoGpu(driver); !reason.empty()) {
    LOG(WARNING) << "--gpu=" << text << ", but " << reason << "; using the CPU";
    return {};
  }
  std::vector<Device*> gpus;
  for (const int ordinal : Selected(text, Present(Flag(text), driver))) {
    gpus.push_back(&driver->Open(ordinal));
  }
  return gpus;
}

Device& ChooseDevice(const std::string& text, ChosenDriver driver) {
  const std::vector<Device*> gpus = ChooseGpus(text, driver);
  if (gpus.size() > 1) {
    LOG(INFO) << "--gpu=" << text << ": one GPU is used, as in Caffe: the first";
  }
  Device& device = gpus.empty() ? HostDevice() : *gpus[0];
  LogDevices(gpus.empty() ? std::vector<Device*>{} : std::vector<Device*>{&device});
  return device;
}

void LogDevices(const std::vector<Device*>& gpus) {
  std::string ordinals;
  for (const Device* gpu : gpus) ordinals += StrCat(ordinals.empty() ? "" : ", ", gpu->ordinal());
  LOG(INFO) << (gpus.empty() ? "Use CPU." : "Using GPUs " + ordinals);
}

std::vector<std::string> DescribeGpus(const std::string& text, ChosenDriver chosen) {
  DeviceDriver* const driver = DriverOf(chosen);
  std::set<int> ordinals = Present(text.empty() ? "" : Flag(text), driver);
  if (!text.empty()) {
    const std::vector<int> selected = Selected(text, ordinals);
    ordinals = {selected.begin(), selected.end()};
  }
  std::vector<std::string> lines;
  for (const DeviceInfo& info : driver->List()) {
    if (!ordinals.contains(info.ordinal)) continue;
    lines.push_back(StrCat("GPU ", info.ordinal, ": ", info.description, ", ",
                           info.memory_bytes >> 20, " MiB"));
  }
  if (!driver->Versions().empty()) lines.push_back(driver->Versions());
  return lines;
}

std::vector<Device*> GpusOf(const SolverConfig& config, ChosenDriver chosen) {
  const caffe::SolverParameter& param = config.param;
  if (!param.has_solver_mode() || param.solver_mode() != caffe::SolverParameter::GPU) return {};
  DeviceDriver* const driver = DriverOf(chosen);
  if (driver == nullptr || driver->List().empty()) return {};
  std::set<int> present;
  for (const DeviceInfo& info : driver->List()) present.insert(info.ordinal);
  if (!present.contains(param.device_id())) {
    throw Located(config.source,
                  FieldError("device_id", param.device_id(),
                             " given, expected a GPU of this machine: ", Names(present)));
  }
  return {&driver->Open(param.device_id())};
}

}  // namespace millrace::inline train
