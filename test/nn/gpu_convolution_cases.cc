// Relatives of the convolution, and pooling.
#include "test/nn/gpu_cases.h"

namespace millrace::test {
namespace {

std::string Convolution(const std::string& type, const std::string& param) {
  return LayerText(type, "convolution_param { " + param +
                             " weight_filler { type: 'gaussian' std: 0.3 }"
                             " bias_filler { type: 'uniform' } }");
}
std::string Pooling(const std::string& param, const std::string& bottom = "x",
                    const std::string& top = "y") {
  return LayerText("Pooling", "pooling_param { " + param + " }", bottom, top);
}

const RegisterGpuCases cases({
    {"Deconvolution",
     Convolution("Deconvolution", "num_output: 4 kernel_size: 4 stride: 2 pad: 1")},
    {"DeconvolutionOfGroups",
     Convolution("Deconvolution", "num_output: 4 kernel_size: 3 stride: 2 group: 2 dilation: 2")},
    {"DeconvolutionOfRows", Convolution("Deconvolution", "num_output: 2 kernel_size: 3 stride: 2"),
     "4 3 5"},
    {"DeconvolutionOfVolumes",
     Convolution("Deconvolution", "num_output: 2 kernel_size: 2 stride: 2 group: 1"), "4 2 3 2 3"},
    {"DepthwiseConvolution",
     Convolution("DepthwiseConvolution", "num_output: 6 kernel_size: 3 pad: 1 stride: 2")},
    {"ConvolutionOfRows", Convolution("Convolution", "num_output: 3 kernel_size: 3 pad: 1"),
     "4 2 7"},
    {"ConvolutionOfVolumes",
     Convolution("Convolution", "num_output: 4 kernel_size: 2 stride: 2 pad: 1 group: 2"),
     "4 2 3 4 5"},
    {"ConvolutionOfAxis2",
     Convolution("Convolution", "axis: 2 num_output: 4 kernel_size: 3 dilation: 2"), "4 2 3 7 6"},
    {"ConvolutionWithoutSpatialAxes", Convolution("Convolution", "num_output: 4 kernel_size: 1"),
     "4 3"},
    {"Im2col", Convolution("Im2col", "kernel_size: 3 stride: 2 pad: 1")},
    {"Im2colOfVolumes", Convolution("Im2col", "kernel_size: 2 dilation: 2"), "4 2 3 4 5"},
    {"MaxPoolingWithPositions",
     "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'y' top: 'positions' pooling_param {"
     " kernel_size: 3 stride: 2 pad: 1 } }"},
    {"PoolingLargerThanTheBottom", Pooling("kernel_size: 10 stride: 4")},
    {"AveragePoolingLargerThanTheBottom", Pooling("pool: AVE kernel_size: 11 stride: 4 pad: 1")},
    {"StochasticPooling",
     LayerText("ReLU", "", "x", "r") + Pooling("pool: STOCHASTIC kernel_size: 3 stride: 2", "r")},
    {"StochasticPoolingInTest",
     LayerText("ReLU", "", "x", "r") + Pooling("pool: STOCHASTIC kernel_size: 3 stride: 2", "r"),
     "4 6 7 9", caffe::TEST},
    {"Spp", LayerText("SPP", "spp_param { pyramid_height: 3 }")},
    {"SppOfAverages", LayerText("SPP", "spp_param { pyramid_height: 2 pool: AVE }")},
    {"SppOfOneLevel", LayerText("SPP", "spp_param { pyramid_height: 1 }")},
});

}  // namespace
}  // namespace millrace::test
