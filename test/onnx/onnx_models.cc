#include "test/onnx/onnx_models.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/text/json.h"
#include "model/onnx/export.h"
#include "nn/plain_values.h"
#include "proto/parse.h"
#include "test/support/peer_python.h"

namespace millrace::test {
namespace {

std::vector<float> Random(int64_t count, float least, float most, uint64_t key) {
  std::mt19937 engine(static_cast<uint32_t>(Seed() * 31 + key));
  std::uniform_real_distribution<float> distribution(least, most);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(engine);
  return values;
}

caffe::NetParameter Parsed(const std::string& text) {
  caffe::NetParameter param;
  ParseText(text, "net", &param, nullptr);
  return param;
}

void WriteArray(const std::string& folder, const std::string& file, const std::string& name,
                const Shape& shape, const std::vector<float>& values, std::string* json) {
  std::ofstream out(folder + "/" + file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  std::string dims;
  for (const int64_t dim : shape) dims += StrCat(dims.empty() ? "" : ",", dim);
  *json += StrCat(json->empty() ? "" : ",", "{\"name\":", JsonText(name), ",\"shape\":[", dims,
                  "],\"file\":", JsonText(file), "}");
}

}  // namespace

RandomNet::RandomNet(const std::string& text) : RandomNet(Parsed(text)) {}

RandomNet::RandomNet(const caffe::NetParameter& param) {
  caffe::NetState state;
  state.set_phase(caffe::TEST);
  loaded_ = std::make_unique<LoadedNet>(param, SourceMap("net"), state, "", &HostDevice(),
                                        Layout::kPlain);
  FillWeights();
  FillInputs();
}

void RandomNet::FillWeights() {
  uint64_t key = 0;
  for (const BuiltNet::Node& node : net().nodes()) {
    const std::string& type = node.layer->type();
    for (size_t i = 0; i < node.layer->params().size(); ++i) {
      Blob& blob = *node.layer->params()[i].blob;
      // So that values keep their size from layer to layer.
      const int64_t inputs = blob.num_axes() > 1 ? blob.count(1) : 1;
      const float scale = blob.num_axes() > 1 ? std::sqrt(6.0f / static_cast<float>(inputs)) : 0.3f;
      std::vector<float> values = Random(blob.count(), -scale, scale, ++key);
      if (type == "BatchNorm" && i == 1) values = Random(blob.count(), 1, 3, key);
      if (type == "BatchNorm" && i == 2) values = {2};
      if (type == "Scale" && i == 0) values = Random(blob.count(), 0.5f, 1.5f, key);
      blob.CopyDataFromHost(values.data());
    }
  }
}

void RandomNet::FillInputs() {
  for (const BuiltNet::Node& node : net().nodes()) {
    if (node.layer->type() != "Input") continue;
    for (size_t i = 0; i < node.top.size(); ++i) {
      Blob& blob = *net().FindBlob(node.top_names[i]);
      blob.CopyDataFromHost(Random(blob.count(), -1, 1, 1000 + i).data());
    }
  }
}

void RandomNet::SetIndices(const std::string& input, int below) {
  Blob& blob = *net().FindBlob(input);
  std::vector<float> values = Random(blob.count(), 0, static_cast<float>(below), 2000);
  for (float& value : values) value = std::min(std::floor(value), static_cast<float>(below - 1));
  blob.CopyDataFromHost(values.data());
}

void OnnxModels::Add(const std::string& name, BuiltNet* net) {
  const std::string folder = folder_ / name;
  std::filesystem::create_directory(folder);
  const onnx::ModelProto model = onnx_export::ModelOf(*net);
  std::ofstream(folder + "/model.onnx", std::ios::binary) << model.SerializeAsString();
  std::string inputs, outputs;
  for (const onnx::ValueInfoProto& input : model.graph().input()) {
    const Blob& blob = *net->FindBlob(input.name());
    WriteArray(folder, StrCat("in", inputs.size()), input.name(), blob.shape(), PlainData(blob),
               &inputs);
  }
  net->Forward();
  for (const onnx::ValueInfoProto& output : model.graph().output()) {
    const Blob* const blob = net->FindBlob(output.name());
    ASSERT_NE(blob, nullptr) << name << ": output " << output.name();
    ASSERT_EQ(output.type().tensor_type().shape().dim_size(), blob->num_axes());
    WriteArray(folder, StrCat("out", outputs.size()), output.name(), blob->shape(),
               PlainData(*blob), &outputs);
  }
  std::ofstream(folder + "/io.json") << "{\"name\":" << JsonText(name) << ",\"inputs\":[" << inputs
                                     << "],\"outputs\":[" << outputs << "]}";
  names_.push_back(name);
}

std::map<std::string, OnnxModels::Result> OnnxModels::Run(std::string* reason,
                                                          std::string* runtime) {
  const char* const runner = std::getenv("ONNX_RUNNER");
  std::vector<std::string> command = {PeerPython(), "test/onnx/run_models"};
  if (runner != nullptr) command = {runner};
  for (const std::string& name : names_) command.push_back(folder_ / name);
  const CommandResult result = test::Run(command, 300);
  EXPECT_EQ(result.status, 0) << result.errors;
  std::map<std::string, Result> results;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string verdict, name, rest;
    words >> verdict >> name;
    std::getline(words, rest);
    if (verdict == "skip") {
      *reason = line.substr(5);
      return {};
    }
    if (verdict == "runtime") {
      if (runtime != nullptr) *runtime = line.substr(8);
      continue;
    }
    Result& found = results[name];
    found.is_invalid = verdict == "invalid";
    if (verdict == "ok") {
      found.error = std::strtod(rest.c_str(), nullptr);
    } else {
      found.reason = rest;
    }
  }
  return results;
}

}  // namespace millrace::test
