#include "model/loaded_net.h"

#include "solver/snapshot.h"

namespace millrace::inline model {
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
