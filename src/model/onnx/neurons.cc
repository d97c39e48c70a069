// Layers that compute each value of their top from one value of their bottom. The formulas are in
// nn/layers/activation/neuron_kernels.h.
#include <cmath>

#include "model/onnx/layer_export.h"

namespace millrace::inline model::onnx_export {
namespace {

void ExportRelu(LayerExport& layer) {
  const float slope = layer.param().relu_param().negative_slope();
  layer.Finish(slope == 0 ? layer.Op("Relu", {layer.in()})
                          : layer.Op("LeakyRelu", {layer.in()}, {{"alpha", slope}}));
}

void ExportRelu6(LayerExport& layer) {
  layer.Finish(layer.Op("Clip", {layer.in(), layer.Scalar(0), layer.Scalar(6)}));
}

// One whose tests multiply; others in tests do nothing.
void ExportDropout(LayerExport& layer) {
  const caffe::DropoutParameter& param = layer.param().dropout_param();
  if (layer.param().phase() != caffe::TEST || param.sample_weights_test()) {
    throw FieldError("type", "a Dropout layer that draws random numbers is not exported");
  }
  layer.Finish(layer.Linear(layer.in(), 1 - param.dropout_ratio(), 0));
}

void ExportPrelu(LayerExport& layer) {
  // One slope per channel, in an array that ends with the axes behind the channels.
  Shape slopes(std::max<size_t>(layer.bottom().size(), 2) - 1, 1);
  slopes[0] = ShapeCount(layer.param_shape(0));
  layer.Finish(layer.Op("PRelu", {layer.in(), layer.Weights(0, slopes)}));
}

void ExportElu(LayerExport& layer) {
  layer.Finish(layer.Op("Elu", {layer.in()}, {{"alpha", layer.param().elu_param().alpha()}}));
}

void ExportSigmoid(LayerExport& layer) { layer.Finish(layer.Op("Sigmoid", {layer.in()})); }
void ExportTanh(LayerExport& layer) { layer.Finish(layer.Op("Tanh", {layer.in()})); }
void ExportAbs(LayerExport& layer) { layer.Finish(layer.Op("Abs", {layer.in()})); }
void ExportBnll(LayerExport& layer) { layer.Finish(layer.Op("Softplus", {layer.in()})); }

// base^(shift + scale x) = e^(log(base) scale x) base^shift
void ExportExp(LayerExport& layer) {
  const caffe::ExpParameter& param = layer.param().exp_param();
  const float log_base = param.base() == -1 ? 1 : std::log(param.base());
  const std::string power =
      layer.Op("Exp", {layer.Linear(layer.in(), log_base * param.scale(), 0)});
  layer.Finish(layer.Linear(power, std::exp(log_base * param.shift()), 0));
}

void ExportLog(LayerExport& layer) {
  const caffe::LogParameter& param = layer.param().log_param();
  const float log_base = param.base() == -1 ? 1 : std::log(param.base());
  const std::string log = layer.Op("Log", {layer.Linear(layer.in(), param.scale(), param.shift())});
  layer.Finish(layer.Linear(log, 1 / log_base, 0));
}

void ExportPower(LayerExport& layer) {
  const caffe::PowerParameter& param = layer.param().power_param();
  if (param.power() == 0 || param.scale() == 0) {
    const float constant = std::pow(param.shift(), param.power());
    const std::string shape = layer.Op("Shape", {layer.in()});
    return layer.Finish(layer.Op("Expand", {layer.Scalar(constant), shape}));
  }
  const std::string base = layer.Linear(layer.in(), param.scale(), param.shift());
  if (param.power() == 1) return layer.Finish(base);
  layer.Finish(param.power() == 2 ? layer.Op("Mul", {base, base})
                                  : layer.Op("Pow", {base, layer.Scalar(param.power())}));
}

void ExportSwish(LayerExport& layer) {
  const float beta = layer.param().swish_param().beta();
  const std::string gate = layer.Op("Sigmoid", {layer.Linear(layer.in(), beta, 0)});
  layer.Finish(layer.Op("Mul", {layer.in(), gate}));
}

void ExportClip(LayerExport& layer) {
  const caffe::ClipParameter& param = layer.param().clip_param();
  layer.Finish(
      layer.Op("Clip", {layer.in(), layer.Scalar(param.min()), layer.Scalar(param.max())}));
}

void ExportThreshold(LayerExport& layer) {
  const float threshold = layer.param().threshold_param().threshold();
  const std::string greater = layer.Op("Greater", {layer.in(), layer.Scalar(threshold)});
  layer.Finish(layer.Op("Cast", {greater}, {{"to", int64_t{onnx::TensorProto::FLOAT}}}));
}

}  // namespace

void AddNeurons(ExportTable* table) {
  table->insert({{"AbsVal", ExportAbs},
                 {"BNLL", ExportBnll},
                 {"Clip", ExportClip},
                 {"Dropout", ExportDropout},
                 {"ELU", ExportElu},
                 {"Exp", ExportExp},
                 {"Log", ExportLog},
                 {"PReLU", ExportPrelu},
                 {"Power", ExportPower},
                 {"ReLU", ExportRelu},
                 {"ReLU6", ExportRelu6},
                 {"Sigmoid", ExportSigmoid},
                 {"Swish", ExportSwish},
                 {"TanH", ExportTanh},
                 {"Threshold", ExportThreshold}});
}

}  // namespace millrace::inline model::onnx_export
