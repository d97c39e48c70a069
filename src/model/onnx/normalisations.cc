// Layers that normalise, and Softmax.
#include <cmath>

#include "model/onnx/layer_export.h"

namespace millrace::inline model::onnx_export {
namespace {

// (value - mean) / sqrt(variance + eps), with the mean and the variance over `axes` of the value.
void FinishWithOwnStatistics(LayerExport& layer, const std::vector<int64_t>& axes, float eps) {
  const Attributes keep = {{"axes", axes}, {"keepdims", int64_t{1}}};
  const std::string mean = layer.Op("ReduceMean", {layer.in()}, keep);
  const std::string centred = layer.Op("Sub", {layer.in(), mean});
  const std::string squares = layer.Op("Mul", {centred, centred});
  const std::string variance = layer.Op("ReduceMean", {squares}, keep);
  const std::string deviation = layer.Op("Sqrt", {layer.Linear(variance, 1, eps)});
  layer.Finish(layer.Op("Div", {centred, deviation}));
}

void ExportBatchNorm(LayerExport& layer) {
  const caffe::BatchNormParameter& param = layer.param().batch_norm_param();
  const Shape& shape = layer.bottom();
  const bool is_global = param.has_use_global_stats() ? param.use_global_stats()
                                                      : layer.param().phase() == caffe::TEST;
  if (!is_global) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis) {
      if (axis != 1) axes.push_back(axis);
    }
    return FinishWithOwnStatistics(layer, axes, param.eps());
  }
  // Blobs 0 and 1 are sums, blob 2 their weight.
  const float weight = layer.WeightValues(2)[0];
  const float factor = weight == 0 ? 0 : 1 / weight;
  std::vector<float> mean = layer.WeightValues(0), variance = layer.WeightValues(1);
  for (float& each : mean) each *= factor;
  for (float& each : variance) each *= factor;
  const Shape channels = {static_cast<int64_t>(mean.size())};
  if (shape.size() == 1) {  // one channel, and no axis for it
    const float deviation = std::sqrt(variance[0] + param.eps());
    return layer.Finish(layer.Linear(layer.in(), 1 / deviation, -mean[0] / deviation));
  }
  const std::vector<float> ones(mean.size(), 1), zeros(mean.size(), 0);
  layer.Finish(layer.Op("BatchNormalization",
                        {layer.in(), layer.Floats(channels, ones), layer.Floats(channels, zeros),
                         layer.Floats(channels, mean), layer.Floats(channels, variance)},
                        {{"epsilon", param.eps()}}));
}

void ExportLrn(LayerExport& layer) {
  const caffe::LRNParameter& param = layer.param().lrn_param();
  const int64_t size = param.local_size();
  if (param.norm_region() == caffe::LRNParameter::ACROSS_CHANNELS) {
    return layer.Finish(layer.Op(
        "LRN", {layer.in()},
        {{"size", size}, {"alpha", param.alpha()}, {"beta", param.beta()}, {"bias", param.k()}}));
  }
  const int64_t pad = (size - 1) / 2;
  const std::string squares = layer.Padded(layer.Op("Mul", {layer.in(), layer.in()}), pad, pad);
  const std::string mean =
      layer.Op("AveragePool", {squares}, {{"kernel_shape", std::vector<int64_t>{size, size}}});
  const std::string scale =
      layer.Op("Pow", {layer.Linear(mean, param.alpha(), 1), layer.Scalar(param.beta())});
  layer.Finish(layer.Op("Div", {layer.in(), scale}));
}

// (bottom - mean) / (sqrt(variance) + eps)
void ExportMvn(LayerExport& layer) {
  const caffe::MVNParameter& param = layer.param().mvn_param();
  std::vector<int64_t> axes = {2, 3};
  if (param.across_channels()) axes.insert(axes.begin(), 1);
  const Attributes keep = {{"axes", axes}, {"keepdims", int64_t{1}}};
  const std::string values = layer.Reshaped(layer.in(), layer.bottom(), layer.top());
  const std::string mean = layer.Op("ReduceMean", {values}, keep);
  const std::string centred = layer.Op("Sub", {values, mean});
  if (!param.normalize_variance()) return layer.Finish(centred);
  const std::string squares = layer.Op("Mul", {centred, centred});
  const std::string deviation = layer.Op("Sqrt", {layer.Op("ReduceMean", {squares}, keep)});
  layer.Finish(layer.Op("Div", {centred, layer.Linear(deviation, 1, param.eps())}));
}

void ExportSoftmax(LayerExport& layer) {
  const int axis = layer.Axis(layer.param().softmax_param().axis());
  layer.Finish(layer.Op("Softmax", {layer.in()}, {{"axis", int64_t{axis}}}));
}

}  // namespace

void AddNormalisations(ExportTable* table) {
  table->insert({{"BatchNorm", ExportBatchNorm},
                 {"LRN", ExportLrn},
                 {"MVN", ExportMvn},
                 {"Softmax", ExportSoftmax}});
}

}  // namespace millrace::inline model::onnx_export
