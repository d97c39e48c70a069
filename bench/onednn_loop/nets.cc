#include "bench/onednn_loop/nets.h"

#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace onednn_loop {
namespace {

LayerSpec Conv(const char* name, int outputs, int kernel, int stride, int pad, int group,
               bool relu) {
  return {Kind::kConv, name, outputs, kernel, stride, pad, group, relu};
}

LayerSpec Pool(const char* name, Kind kind, int kernel) { return {kind, name, 0, kernel, 2}; }

LayerSpec InnerProduct(const char* name, int outputs, bool relu = false, bool dropout = false) {
  return {Kind::kInnerProduct, name, outputs, 0, 1, 0, 1, relu, dropout};
}

}  // namespace

// Which order of activations is the fastest was measured with AVX2 and AVX-512,
// and it is the same with both. LeNet's 20 and 50 channels fill no whole blocks,
// and oneDNN 2.6 on AVX2 has only its reference code for the weight gradient of a
// convolution from one channel to blocked ones that are padded.
NetSpec NetSpecOf(const std::string& name) {
  if (name == "lenet") {
    return {name,
            64,
            1,
            28,
            10,
            0.01f,
            5e-4f,
            false,
            {Conv("conv1", 20, 5, 1, 0, 1, false), Pool("pool1", Kind::kMaxPool, 2),
             Conv("conv2", 50, 5, 1, 0, 1, false), Pool("pool2", Kind::kMaxPool, 2),
             InnerProduct("ip1", 500, true), InnerProduct("ip2", 10)}};
  }
  if (name == "quick") {
    // The net has relu1 behind pool1; maximum and ReLU commute, so conv1 takes it.
    return {name,
            100,
            3,
            32,
            10,
            0.001f,
            4e-3f,
            true,
            {Conv("conv1", 32, 5, 1, 2, 1, true), Pool("pool1", Kind::kMaxPool, 3),
             Conv("conv2", 32, 5, 1, 2, 1, true), Pool("pool2", Kind::kAvePool, 3),
             Conv("conv3", 64, 5, 1, 2, 1, true), Pool("pool3", Kind::kAvePool, 3),
             InnerProduct("ip1", 64), InnerProduct("ip2", 10)}};
  }
  if (name == "caffenet") {
    return {name,
            16,
            3,
            227,
            1000,
            0.01f,
            5e-4f,
            true,
            {Conv("conv1", 96, 11, 4, 0, 1, true),
             Pool("pool1", Kind::kMaxPool, 3),
             {Kind::kLrn, "norm1"},
             Conv("conv2", 256, 5, 1, 2, 2, true),
             Pool("pool2", Kind::kMaxPool, 3),
             {Kind::kLrn, "norm2"},
             Conv("conv3", 384, 3, 1, 1, 1, true),
             Conv("conv4", 384, 3, 1, 1, 2, true),
             Conv("conv5", 256, 3, 1, 1, 2, true),
             Pool("pool5", Kind::kMaxPool, 3),
             InnerProduct("fc6", 4096, true, true),
             InnerProduct("fc7", 4096, true, true),
             InnerProduct("fc8", 1000)}};
  }
  throw std::invalid_argument("--net=" + name + ": expected lenet, quick or caffenet");
}

ParamTable PlaceParams(const NetSpec& net) {
  ParamTable table;
  size_t channels = net.channels, side = net.size;
  const auto place = [&](size_t count, float rate_mult, float decay_mult, float amplitude) {
    table.params.push_back({table.size, count, rate_mult, decay_mult, amplitude});
    table.size += (count + 15) / 16 * 16;
  };
  const auto place_both = [&](const LayerSpec& layer, size_t fan_in) {
    const float gain = layer.relu ? 6 : 3;
    place(layer.outputs * fan_in, 1, 1, std::sqrt(gain / static_cast<float>(fan_in)));
    place(layer.outputs, 2, 0, 0);
  };
  for (const LayerSpec& layer : net.layers) {
    switch (layer.kind) {
      case Kind::kConv:
        place_both(layer, channels / layer.group * layer.kernel * layer.kernel);
        channels = layer.outputs;
        side = (side + 2 * layer.pad - layer.kernel) / layer.stride + 1;
        break;
      case Kind::kInnerProduct:
        place_both(layer, channels * side * side);
        channels = layer.outputs;
        side = 1;
        break;
      case Kind::kMaxPool:
      case Kind::kAvePool:  // Caffe rounds up
        side = (side - layer.kernel + layer.stride - 1) / layer.stride + 1;
        break;
      case Kind::kLrn:
        break;
    }
  }
  return table;
}

void FillWeights(const ParamTable& table, float* weights) {
  uint32_t state = 12345;
  for (const Param& param : table.params) {
    for (size_t i = 0; i < param.count; ++i) {
      state = state * 1664525u + 1013904223u;
      const float unit = static_cast<float>(state >> 8) / (1 << 23) - 1;
      weights[param.offset + i] = param.amplitude * unit;
    }
  }
}

}  // namespace onednn_loop
