// millrace convert: weights from and to the formats of other programs, and nets as ONNX models.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <optional>

#include "model/arrays/net_arrays.h"
#include "model/loaded_net.h"
#include "nn/net_text.h"
#include "tools/command.h"
#include "tools/flags.h"

DECLARE_string(output);
DEFINE_string(to, "", "the format to write: caffemodel, npz, onnx or safetensors");
DEFINE_string(dtype, "",
              "numbers in arrays: float32, float16 or bfloat16. Default: as they are in a file of "
              "arrays, float32 of a net");
DEFINE_string(names, "numbers",
              "names of arrays: numbers (LAYER.0, LAYER.1), or torch (LAYER.weight, LAYER.bias)");

namespace millrace {
namespace {

std::optional<ElementType> TypeFromFlag() {
  if (FLAGS_dtype.empty()) return {};
  for (const ElementType type :
       {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBfloat16}) {
    if (FLAGS_dtype == NameOf(type)) return type;
  }
  throw Error("--dtype=", FLAGS_dtype, ": expected float32, float16 or bfloat16");
}

ArrayNames NamesFromFlag() {
  if (FLAGS_names == "numbers") return ArrayNames::kNumbers;
  if (FLAGS_names == "torch") return ArrayNames::kTorch;
  throw Error("--names=", FLAGS_names, ": expected numbers or torch");
}

// The net of --model with the weights of --weights.
class WeightedNet {
 public:
  WeightedNet() {
    LoadNet(FLAGS_model, &param_, &source_);
    const bool is_array_file = IsArrayFile(FLAGS_weights);
    loaded_ = std::make_unique<LoadedNet>(param_, source_, NetStateFromFlags(param_, caffe::TEST),
                                          is_array_file ? "" : FLAGS_weights, &HostDevice(),
                                          Layout::kPlain);
    if (is_array_file) SetWeights(ReadArrays(FLAGS_weights), FLAGS_weights, &net());
  }
  BuiltNet& net() { return loaded_->net(); }

 private:
  caffe::NetParameter param_;
  SourceMap source_;
  std::unique_ptr<LoadedNet> loaded_;
};

void WriteArrayFile() {
  const std::optional<ElementType> type = TypeFromFlag();
  const ArrayNames names = NamesFromFlag();
  std::vector<NamedArray> arrays;
  if (FLAGS_model.empty() && IsArrayFile(FLAGS_weights)) {
    arrays = ReadArrays(FLAGS_weights);
    if (type) ConvertFloats(*type, &arrays);
  } else {
    const ElementType written = type.value_or(ElementType::kFloat32);
    arrays = FLAGS_model.empty() ? ArraysOfModel(FLAGS_weights, names, written)
                                 : ArraysOfNet(WeightedNet().net(), FLAGS_weights, names, written);
  }
  WriteArrays(FLAGS_to, FLAGS_output, arrays);
}

int RunConvert(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  RequireFlag("to", FLAGS_to);
  RequireFlag("weights", FLAGS_weights);
  RequireFlag("output", FLAGS_output);
  if (FLAGS_to == "npz" || FLAGS_to == "safetensors") {
    WriteArrayFile();
  } else if (FLAGS_to == "caffemodel") {
    RequireFlag("model", FLAGS_model);
    WriteCaffemodel(WeightedNet().net(), FLAGS_output);
  } else {
    const WriteModelFile write = FindModelFormat(FLAGS_to);
    RequireFlag("model", FLAGS_model);
    write(WeightedNet().net(), FLAGS_output);
  }
  LOG(INFO) << "Wrote " << FLAGS_output;
  return 0;
}

const RegisterCommand registered_convert_model(
    {"convert",
     "",
     "weights from and to the formats of other programs, nets as ONNX models",
     {"to", "model", "weights", "output", "dtype", "names", "level", "stage", "plugins"},
     RunConvert});

}  // namespace
}  // namespace millrace
