#include "model/onnx/export.h"

#include <climits>

#include "base/error.h"
#include "base/files/file.h"
#include "millrace/version.h"
#include "model/loaded_net.h"
#include "model/onnx/layer_export.h"
#include "model/onnx/values.h"

namespace millrace::inline model::onnx_export {
namespace {

constexpr int kIrVersion = 7, kOpset = 13;  // both of onnx 1.8

const ExportTable& Table() {
  static const ExportTable table = [] {
    ExportTable all;
    for (const auto add : {AddNeurons, AddConvolutions, AddPooling, AddNormalisations,
                           AddCombinations, AddShapes, AddReductions}) {
      add(&all);
    }
    return all;
  }();
  return table;
}

Names NamesOf(const NetValues& all, const std::vector<int>& values) {
  Names names;
  for (const int v : values) names.push_back(all.values[v].name);
  return names;
}

// Appends the operators of all wanted layers. Returns what is wrong with those that cannot be
// exported.
std::string AddLayers(const BuiltNet& net, const NetValues& all, Graph* graph) {
  std::string problems;
  SharedConstants constants;
  for (size_t n = 0; n < all.nodes.size(); ++n) {
    const NetValues::Node& values = all.nodes[n];
    if (!values.is_wanted) continue;
    const BuiltNet::Node& node = net.nodes()[n];
    const auto exporter = Table().find(node.layer->type());
    const std::string place =
        StrCat(problems.empty() ? "" : "; ", "layer '", node.layer->name(), "': ");
    if (exporter == Table().end()) {
      problems += StrCat(place, "a layer of type ", node.layer->type(), " has no form in ONNX");
      continue;
    }
    LayerExport layer(graph, &constants, node.layer.get(), node.bottom, node.top,
                      NamesOf(all, values.bottom), NamesOf(all, values.top));
    try {
      exporter->second(layer);
    } catch (const FieldError& error) {
      problems += StrCat(place, error.field(), ": ", error.what());
    }
  }
  return problems;
}

}  // namespace

onnx::ModelProto ModelOf(const BuiltNet& net) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("millrace");
  model.set_producer_version(
      StrCat(MILLRACE_VERSION_MAJOR, ".", MILLRACE_VERSION_MINOR, ".", MILLRACE_VERSION_PATCH));
  onnx::OperatorSetIdProto* const opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(kOpset);
  model.mutable_graph()->set_name(net.name().empty() ? "net" : net.name());
  Graph graph(model.mutable_graph());

  NetValues all = FindValues(net);
  const auto shape = [&](const Value& value) {
    return net.nodes()[value.node].top[value.top]->shape();
  };
  for (Value& value : all.values) {
    if (!value.is_wanted) continue;
    value.name = graph.NewName(value.name);
    if (value.is_input) graph.AddInput(value.name, shape(value));
    if (value.is_output) graph.AddOutput(value.name, shape(value));
  }
  if (model.graph().output_size() == 0) throw Error("the net has no layers to export");
  const std::string problems = AddLayers(net, all, &graph);
  if (!problems.empty()) throw Error(problems);
  return model;
}

void WriteOnnx(const BuiltNet& net, const std::string& path) {
  const onnx::ModelProto model = ModelOf(net);
  if (model.ByteSizeLong() > INT_MAX) {
    throw Error(path, ": the weights make a file of ", model.ByteSizeLong(),
                " bytes, and an ONNX file has at most ", INT_MAX);
  }
  AtomicFile file(path);
  file.Write(model.SerializeAsString());
  file.Commit();
}

namespace {

const RegisterModelFormat onnx_format("onnx", WriteOnnx);

}  // namespace
}  // namespace millrace::inline model::onnx_export
