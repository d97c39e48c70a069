// Element-wise and normalising layers for the comparison of devices.
#include "base/error.h"
#include "test/nn/gpu_cases.h"

namespace millrace::test {
namespace {

// In place on the output of a convolution.
std::string InPlace(const std::string& type, const std::string& param) {
  return LayerText("Convolution",
                   "convolution_param { num_output: 4 kernel_size: 3"
                   " weight_filler { type: 'gaussian' std: 0.3 } }") +
         LayerText(type, param, "y", "y");
}

std::vector<GpuCase> Cases() {
  const std::string fillers =
      " filler { type: 'uniform' min: 0.5 max: 2 } bias_term: true"
      " bias_filler { type: 'uniform' }";
  std::vector<GpuCase> cases;
  const auto add = [&](const std::string& name, const std::string& type, const std::string& param,
                       bool in_place = true) {
    cases.push_back({name, LayerText(type, param)});
    if (in_place) cases.push_back({name + "InPlace", InPlace(type, param)});
  };
  add("Sigmoid", "Sigmoid", "");
  add("TanH", "TanH", "");
  add("Elu", "ELU", "elu_param { alpha: 0.7 }");
  add("Selu", "SeLu", "");
  add("Insanity", "Insanity", "");
  add("InsanityOfNegativeRange", "Insanity", "insanity_param { lb: -4 ub: -2 }");
  add("Swish", "Swish", "swish_param { beta: 1.3 }");
  add("Clip", "Clip", "clip_param { min: -0.5 max: 0.7 }");
  add("Relu6", "ReLU6", "");
  add("AbsVal", "AbsVal", "", false);
  add("PowerOfOne", "Power", "power_param { scale: -2 shift: 1 }");
  add("PowerOfTwo", "Power", "power_param { power: 2 scale: 0.5 shift: 1 }");
  add("PowerOfThree", "Power", "power_param { power: 3 scale: 0.3 }");
  add("PowerOfZero", "Power", "power_param { power: 0 }");
  add("Exp", "Exp", "exp_param { base: 2 scale: 0.3 shift: 0.1 }");
  add("Bnll", "BNLL", "");
  add("Prelu", "PReLU", "prelu_param { filler { type: 'uniform' min: -0.5 max: 0.5 } }");
  add("PreluShared", "PReLU", "prelu_param { channel_shared: true }");
  add("Scale", "Scale", "scale_param {" + fillers + " }");
  add("ScaleOfAxes", "Scale", "scale_param { axis: 1 num_axes: 2" + fillers + " }");
  add("ScaleWithoutBias", "Scale", "scale_param { filler { type: 'uniform' } }");
  add("ScaleFixed", "Scale", "param { lr_mult: 0 } scale_param {" + fillers + " }");
  add("Bias", "Bias", "bias_param { filler { type: 'uniform' } }");
  add("BatchNorm", "BatchNorm", "");
  add("BatchNormOfStatistics", "BatchNorm", "batch_norm_param { use_global_stats: true eps: 1 }");
  add("Mvn", "MVN", "");
  add("MvnAcross", "MVN", "mvn_param { across_channels: true }");
  add("MvnOfMeans", "MVN", "mvn_param { normalize_variance: false }");
  cases.push_back({"BatchNormOfRows", LayerText("BatchNorm", ""), "6 5"});
  cases.push_back({"BatchNormInTest", LayerText("BatchNorm", "batch_norm_param { eps: 1 }"),
                   "4 6 7 9", caffe::TEST});
  cases.push_back(
      {"LogOfAPower", LayerText("Power", "power_param { power: 2 shift: 3 }", "x", "p") +
                          LayerText("Log", "log_param { base: 2 shift: 0.5 scale: 2 }", "p", "y")});
  cases.push_back({"ThresholdWithoutGradient",
                   LayerText("Threshold", "threshold_param { threshold: 0.2 }"), "4 6 7 9",
                   caffe::TRAIN, false});
  cases.push_back(
      {"ScaleOfTwoBottoms",
       "layer { name: 'more' type: 'Input' top: 's' input_param { shape { dim: 4 dim: 6 } } }"
       "layer { name: 'scale' type: 'Scale' bottom: 'x' bottom: 's' top: 'z'"
       "  scale_param { axis: 0 bias_term: true bias_filler { type: 'uniform' } } }"
       "layer { name: 'bias' type: 'Bias' bottom: 'z' bottom: 's' top: 'y'"
       "  bias_param { axis: 0 } }"});
  cases.push_back(
      {"ResNetLike", LayerText("Convolution",
                               "convolution_param { num_output: 8 kernel_size: 3 bias_term: false"
                               " weight_filler { type: 'xavier' } }",
                               "x", "y") +
                         LayerText("BatchNorm", "", "y", "y") +
                         LayerText("Scale", "scale_param {" + fillers + " }", "y", "y") +
                         LayerText("ReLU", "", "y", "y")});
  return cases;
}

const RegisterGpuCases registered(Cases());

}  // namespace
}  // namespace millrace::test
