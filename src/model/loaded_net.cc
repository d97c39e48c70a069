#include "model/loaded_net.h"

#include <map>

#include "base/error.h"
#include "base/module.h"
#include "base/registration.h"
#include "solver/snapshot.h"

namespace millrace::inline model {
namespace {

std::map<std::string, WriteModelFile>& Writers() {
  static std::map<std::string, WriteModelFile> writers;
  return writers;
}

}  // namespace

RegisterModelFormat::RegisterModelFormat(const std::string& format, WriteModelFile write) {
  if (!Writers().emplace(format, write).second) {
    ReportBadRegistration(StrCat("model format '", format, "' is registered twice"));
  }
}

WriteModelFile FindModelFormat(const std::string& format) {
  if (format != "onnx") {
    throw Error("--to=", format, ": expected caffemodel, npz, onnx or safetensors");
  }
  const std::string reason = LoadModule("onnx");
  const auto writer = Writers().find(format);
  if (writer == Writers().end()) throw Error("--to=", format, ": in ", reason);
  return writer->second;
}

namespace {

BuiltNetOptions OptionsOf(const caffe::NetState& state, DataService* data, Device* device,
                          std::optional<Layout> layout) {
  BuiltNetOptions options;
  options.state = state;
  options.data = data;
  options.data_scope = "test0";
  options.device = device;
  options.layout = layout;
  return options;
}

}  // namespace

LoadedNet::LoadedNet(const caffe::NetParameter& param, const SourceMap& source,
                     const caffe::NetState& state, const std::string& weights, Device* device,
                     std::optional<Layout> layout)
    : data_(DataOptions{}),
      net_(param, source, OptionsOf(state, &data_, device, layout)),
      weights_(device, net_.layout().size()) {
  net_.LogNotices();
  net_.BindWeights(weights_.data());
  net_.FillWeights();
  if (!weights.empty()) LoadWeights(weights, &net_);
}

}  // namespace millrace::inline model
