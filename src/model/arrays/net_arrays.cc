#include "model/arrays/net_arrays.h"

#include <glog/logging.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text/format.h"
#include "proto/parse.h"
#include "solver/hdf5_snapshot.h"
#include "solver/snapshot.h"

namespace millrace::inline model {
namespace {

constexpr const char* kTorchNames[] = {"weight", "bias"};
constexpr size_t kMaxNamed = 20;  // names in a message

// "a, b and 3 more".
std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMaxNamed) text += StrCat(" and ", names.size() - kMaxNamed, " more");
  return text;
}

std::string TextOf(const ArrayShape& shape) {
  std::string text;
  for (const int64_t length : shape) text += StrCat(text.empty() ? "" : " x ", length);
  return text.empty() ? "one number" : text;
}

ArrayShape WithoutOnes(ArrayShape shape) {
  std::erase(shape, 1);
  return shape;
}

// The names that an array of parameter `k` of `count` may have, the preferred one first.
std::vector<std::string> NamesOf(const std::string& layer, size_t k, size_t count, bool is_onnx) {
  std::vector<std::string> bases = {layer};
  if (layer.find('/') != std::string::npos) {
    bases.push_back(layer);
    std::replace(bases[1].begin(), bases[1].end(), '/', '.');
  }
  std::vector<std::string> names;
  for (const std::string& base : bases) {
    names.push_back(StrCat(base, ".", k));
    if (count <= 2) names.push_back(StrCat(base, ".", kTorchNames[k]));
    if (is_onnx) names.push_back(StrCat(base, "/blob_", k));
  }
  return names;
}

std::vector<NamedArray> ArraysOf(const caffe::NetParameter& model, ArrayNames names,
                                 ElementType type, const std::string& path) {
  std::vector<NamedArray> arrays;
  std::set<std::string> seen;
  for (const caffe::LayerParameter& layer : model.layer()) {
    if (layer.blobs_size() == 0) continue;
    if (!seen.insert(layer.name()).second) {
      throw Error(path, ": two layers with weights have the name ", Quoted(layer.name()));
    }
    for (int k = 0; k < layer.blobs_size(); ++k) {
      const bool has_torch_name = names == ArrayNames::kTorch && layer.blobs_size() <= 2;
      NamedArray& array = arrays.emplace_back();
      array.name =
          has_torch_name ? layer.name() + "." + kTorchNames[k] : StrCat(layer.name(), ".", k);
      array.shape = ShapeOf(layer.blobs(k));
      array.type = type;
      Blob values(array.shape);
      values.FromProto(layer.blobs(k), StrCat(path, ": array ", Quoted(array.name)));
      array.bytes =
          BytesOfFloats(type, std::vector<float>(values.data(), values.data() + values.count()));
    }
  }
  if (arrays.empty()) throw Error(path, ": no layer has weights");
  return arrays;
}

}  // namespace

bool IsArrayFile(const std::string& path) {
  if (path.ends_with(".onnx")) return true;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kFormatBytes, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.bad() || !file.is_open()) throw Error(path, ": cannot be read");
  bytes.resize(static_cast<size_t>(file.gcount()));
  return FormatOf(bytes) != ArrayFormat::kNone;
}

std::vector<NamedArray> ArraysOfModel(const std::string& path, ArrayNames names, ElementType type) {
  return ArraysOf(LoadModel(path), names, type, path);
}

std::vector<NamedArray> ArraysOfNet(const BuiltNet& net, const std::string& path, ArrayNames names,
                                    ElementType type) {
  caffe::NetParameter model;
  net.ToProto(&model, false);
  return ArraysOf(model, names, type, path);
}

void SetWeights(const std::vector<NamedArray>& arrays, const std::string& path, BuiltNet* net) {
  const bool is_onnx = path.ends_with(".onnx");
  std::map<std::string, const NamedArray*> by_name;
  for (const NamedArray& array : arrays) by_name[array.name] = &array;
  std::set<std::string> used;
  std::set<const float*> set;  // parameters that layers share need one array
  std::vector<std::pair<const float*, std::string>> missing;
  for (const BuiltNet::Node& node : net->nodes()) {
    const std::vector<Param>& params = node.layer->params();
    for (size_t k = 0; k < params.size(); ++k) {
      Blob& blob = *params[k].blob;
      const std::vector<std::string> names = NamesOf(node.layer->name(), k, params.size(), is_onnx);
      const auto name = std::find_if(names.begin(), names.end(),
                                     [&](const auto& each) { return by_name.count(each) != 0; });
      if (name == names.end()) {
        missing.emplace_back(blob.data(), Quoted(names[0]));
        continue;
      }
      const NamedArray& array = *by_name.at(*name);
      const bool fits = is_onnx ? WithoutOnes(array.shape) == WithoutOnes(blob.shape())
                                : array.shape == blob.shape();
      if (!fits) {
        throw Error(path, ": array ", Quoted(*name), ": its shape is ", TextOf(array.shape),
                    ", expected ", TextOf(blob.shape()), ", as the net has it");
      }
      const std::vector<float> values = FloatsOf(array.type, array.bytes);
      blob.CopyDataFromHost(values.data());
      used.insert(*name);
      set.insert(blob.data());
    }
  }
  std::vector<std::string> absent, unknown;
  for (const auto& [data, name] : missing) {
    if (set.count(data) == 0) absent.push_back(name);
  }
  for (const NamedArray& array : arrays) {
    if (used.count(array.name) == 0) unknown.push_back(Quoted(array.name));
  }
  if (is_onnx && !unknown.empty()) {
    LOG(INFO) << path << ": left out, no parameter has these names: " << Listed(unknown);
    unknown.clear();
  }
  std::string problems;
  if (!absent.empty()) problems = "no array for " + Listed(absent);
  if (!unknown.empty()) {
    problems +=
        StrCat(problems.empty() ? "" : "; ", "the net has no parameter for ", Listed(unknown));
  }
  if (!problems.empty()) {
    throw Error(path, ": ", problems,
                "; expected the names LAYER.0, LAYER.1, or LAYER.weight, LAYER.bias");
  }
}

void WriteCaffemodel(const BuiltNet& net, const std::string& path) {
  caffe::NetParameter model;
  net.ToProto(&model, false);
  if (path.ends_with(".h5")) {
    SaveHdf5Model(path, model);
  } else {
    SaveBinary(path, model);
  }
}

void ConvertFloats(ElementType type, std::vector<NamedArray>* arrays) {
  for (NamedArray& array : *arrays) {
    const bool is_float =
        array.type == ElementType::kFloat16 || array.type == ElementType::kBfloat16 ||
        array.type == ElementType::kFloat32 || array.type == ElementType::kFloat64;
    if (!is_float || array.type == type) continue;
    array.bytes = BytesOfFloats(type, FloatsOf(array.type, array.bytes));
    array.type = type;
  }
}

}  // namespace millrace::inline model
