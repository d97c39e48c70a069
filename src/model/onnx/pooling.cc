// Pooling. Caffe rounds the size of the top up, so that the last windows may reach beyond the
// padded bottom. Padding at the end makes the tops of the operators as large. An average divides by
// the part of its window inside the padded bottom, so that the padding of Caffe is part of the
// values, and the padding at the end is not.
#include <array>

#include "model/onnx/layer_export.h"

namespace millrace::inline model::onnx_export {
namespace {

struct Windows {
  std::array<int64_t, 2> in, out, kernel, stride, pad;

  // The number of places behind the bottom that the last window reaches.
  int64_t PadEnd(int axis) const {
    return std::max<int64_t>(0,
                             (out[axis] - 1) * stride[axis] + kernel[axis] - in[axis] - pad[axis]);
  }
  bool has_pad() const { return pad[0] > 0 || pad[1] > 0; }

  Attributes ForOperator() const {
    return {{"kernel_shape", std::vector<int64_t>{kernel[0], kernel[1]}},
            {"strides", std::vector<int64_t>{stride[0], stride[1]}},
            {"pads", std::vector<int64_t>{pad[0], pad[1], PadEnd(0), PadEnd(1)}}};
  }
};

Windows WindowsOf(const LayerExport& layer) {
  const caffe::PoolingParameter& p = layer.param().pooling_param();
  const auto pair = [](bool has_h, int64_t h, bool has_w, int64_t w, int64_t both) {
    return std::array{has_h ? h : both, has_w ? w : both};
  };
  Windows w;
  w.in = {layer.bottom()[2], layer.bottom()[3]};
  w.out = {layer.top()[2], layer.top()[3]};
  w.kernel = pair(p.has_kernel_h(), p.kernel_h(), p.has_kernel_w(), p.kernel_w(), p.kernel_size());
  w.stride = pair(p.has_stride_h(), p.stride_h(), p.has_stride_w(), p.stride_w(), p.stride());
  w.pad = pair(p.has_pad_h(), p.pad_h(), p.has_pad_w(), p.pad_w(), p.pad());
  if (p.global_pooling()) w.kernel = w.in;
  for (int axis : {0, 1}) {
    if ((w.out[axis] - 1) * w.stride[axis] - w.pad[axis] >= w.in[axis]) {
      throw FieldError("pooling_param",
                       "the last window lies outside of the bottom, which ONNX has "
                       "nothing for");
    }
  }
  return w;
}

void ExportAverage(LayerExport& layer) {
  Windows w = WindowsOf(layer);
  std::string values = layer.in();
  if (w.has_pad()) {
    values = layer.Padded(values, w.pad[0], w.pad[1]);
    for (int axis : {0, 1}) {
      w.in[axis] += 2 * w.pad[axis];
      w.pad[axis] = 0;
    }
  }
  layer.Finish(layer.Op("AveragePool", {values}, w.ForOperator()));
}

void ExportMaximum(LayerExport& layer) {
  const Windows w = WindowsOf(layer);
  const Names results = layer.Ops("MaxPool", {layer.in()}, layer.tops(), w.ForOperator());
  layer.Finish(results[0]);
  if (layer.tops() < 2) return;
  // ONNX counts places in the whole bottom, Caffe in the plane.
  const std::string plane = layer.Ints({w.in[0] * w.in[1]});
  const std::string place = layer.Op("Mod", {results[1], plane});
  layer.Finish(layer.Op("Cast", {place}, {{"to", int64_t{onnx::TensorProto::FLOAT}}}), 1);
}

void ExportPooling(LayerExport& layer) {
  const caffe::PoolingParameter& param = layer.param().pooling_param();
  const bool is_maximum = param.pool() == caffe::PoolingParameter::MAX;
  if (!is_maximum && param.pool() != caffe::PoolingParameter::AVE) {
    throw FieldError("pooling_param.pool", "ONNX has only MAX and AVE");
  }
  if (param.global_pooling() && layer.tops() == 1) {
    return layer.Finish(layer.Op(is_maximum ? "GlobalMaxPool" : "GlobalAveragePool", {layer.in()}));
  }
  is_maximum ? ExportMaximum(layer) : ExportAverage(layer);
}

}  // namespace

void AddPooling(ExportTable* table) { table->emplace("Pooling", ExportPooling); }

}  // namespace millrace::inline model::onnx_export
