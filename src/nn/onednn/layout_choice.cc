#include <algorithm>
#include <dnnl.hpp>

#include "nn/layout.h"

namespace millrace::inline nn {
namespace {

// Blocks of channels if the outputs of every convolution fill whole blocks of this CPU's vectors;
// channels innermost otherwise.
Layout ChooseForCpu(const std::vector<PlacedLayer>& layers) {
  const bool avx512 = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  const uint32_t block = avx512 ? 16 : 8;
  const bool fill_blocks = std::all_of(layers.begin(), layers.end(), [&](const PlacedLayer& layer) {
    const std::string& type = layer.param.type();
    const bool convolution =
        type == "Convolution" || type == "DepthwiseConvolution" || type == "ConvolutionDepthwise";
    return !convolution || layer.param.convolution_param().num_output() % block == 0;
  });
  if (!fill_blocks) return Layout::kNhwc;
  return avx512 ? Layout::kBlocked16 : Layout::kBlocked8;
}

const RegisterLayoutChooser layout_choice(DeviceType::kCpu, ChooseForCpu);

}  // namespace
}  // namespace millrace::inline nn
