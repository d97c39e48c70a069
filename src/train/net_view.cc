#include "train/net_view.h"

#include <algorithm>
#include <set>

#include "nn/plain_values.h"
#include "proto/parse.h"
#include "solver/hdf5_snapshot.h"
#include "solver/snapshot.h"
#include "train/one_omp_thread.h"

namespace millrace::inline train {
namespace {

std::string NamesOf(const std::vector<NetBlob>& blobs) {
  std::string names;
  for (const NetBlob& blob : blobs) names += (names.empty() ? "" : ", ") + blob.name;
  return names.empty() ? "none" : names;
}

}  // namespace

MemoryDataLayer& FindMemoryData(const BuiltNet& net, const std::string& layer) {
  if (auto* const found = dynamic_cast<MemoryDataLayer*>(net.FindLayer(layer))) return *found;
  throw Error("net '", net.name(), "': there is no layer '", layer, "' of type MemoryData");
}

std::vector<WeightArray> NetView::arrays() const {
  std::vector<WeightArray> arrays;
  for (const ParamEntry& entry : net_.layout().entries()) {
    arrays.push_back({entry.name, entry.shape, entry.offset, entry.count});
  }
  return arrays;
}

int NetView::LoadWeights(const std::string& model_file) {
  const int matched = CopyModel(model_file, &net_);
  if (matched == 0) {
    throw Error(model_file, ": no layer with weights has the name of one in net '", name(), "'");
  }
  return matched;
}

void NetView::SaveWeights(const std::string& model_file) const {
  caffe::NetParameter model;
  net_.ToProto(&model, false);
  if (model_file.ends_with(".h5")) return SaveHdf5Model(model_file, model);
  SaveBinary(model_file, model);
}

std::vector<NetBlob> NetView::inputs() const {
  std::vector<NetBlob> inputs;
  for (const BuiltNet::Node& node : net_.nodes()) {
    if (node.layer->type() != "Input") continue;
    for (const std::string& top : node.top_names) {
      inputs.push_back({top, net_.FindBlob(top)->shape()});
    }
  }
  return inputs;
}

void NetView::SetInput(const std::string& input, std::span<const float> values) {
  const std::vector<NetBlob> all = inputs();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const NetBlob& each) { return each.name == input; });
  if (found == all.end()) {
    throw Error("net '", name(), "': there is no input '", input, "'; inputs: ", NamesOf(all));
  }
  Blob& blob = Find(input);
  if (static_cast<int64_t>(values.size()) != blob.count()) {
    throw Error("net '", name(), "': input '", input, "': ", values.size(),
                " values given, expected ", ShapeText(blob.shape()));
  }
  net_.queue().Synchronize();
  blob.CopyDataFromHost(values.data());
}

void NetView::SetMemoryData(const std::string& layer, std::span<const float> values,
                            std::span<const float> labels) {
  FindMemoryData(net_, layer).SetData(values, labels);
}

void NetView::SetMemoryData(const std::string& layer, std::span<const caffe::Datum> datums) {
  FindMemoryData(net_, layer).SetData(datums);
}

float NetView::Forward() {
  const OneOmpThread one;
  net_.set_pass(passes_++);
  return net_.Forward();
}

void NetView::Backward() {
  if (passes_ == 0) throw Error("net '", name(), "': Backward: expected a Forward before it");
  const OneOmpThread one;
  net_.ClearGradients();
  net_.Backward();
}

std::vector<NetBlob> NetView::outputs() const {
  std::vector<NetBlob> outputs;
  for (const BuiltNet::Output& output : net_.outputs()) {
    outputs.push_back({output.name, output.blob->shape()});
  }
  return outputs;
}

std::vector<NetBlob> NetView::blobs() const {
  std::vector<NetBlob> blobs;
  std::set<std::string> known;
  for (const BuiltNet::Node& node : net_.nodes()) {
    for (const std::string& top : node.top_names) {
      const Blob* const blob = net_.FindBlob(top);  // null: a top that the file does not name
      if (blob && known.insert(top).second) blobs.push_back({top, blob->shape()});
    }
  }
  return blobs;
}

std::vector<float> NetView::Values(const std::string& blob) const {
  const Blob& found = Find(blob);
  net_.queue().Synchronize();
  return PlainData(found);
}

std::vector<float> NetView::Gradients(const std::string& blob) const {
  const Blob& found = Find(blob);
  net_.queue().Synchronize();
  return PlainDiff(found);
}

std::span<const float> NetView::gradients() const {
  const float* const gradients = net_.gradients();
  net_.queue().Synchronize();
  return {gradients, weights_.size()};
}

// Throws Error if there is no such blob.
Blob& NetView::Find(const std::string& blob) const {
  Blob* const found = net_.FindBlob(blob);
  if (found == nullptr) {
    throw Error("net '", name(), "': there is no blob '", blob, "'; blobs: ", NamesOf(blobs()));
  }
  return *found;
}

}  // namespace millrace::inline train
