#include "proto/ignored_fields.h"

#include <map>
#include <set>
#include <utility>

namespace millrace::inline proto {
namespace {

using FieldSets = std::map<std::string, std::set<std::string>>;

// Choices of libraries, number types, threads and memory, of NVIDIA's and Intel's forks.
const FieldSets& Implementation() {
  static const FieldSets fields = {
      {"NetParameter",
       {"engine", "default_forward_type", "default_backward_type", "default_forward_math",
        "default_backward_math", "default_conv_algos_override", "default_cudnn_math_override",
        "global_grad_scale", "global_grad_scale_adaptive", "reduce_buckets", "optimize_mem"}},
      {"SolverParameter", {"engine", "solver_data_type", "data_type"}},
      {"LayerParameter",
       {"engine", "forward_type", "backward_type", "forward_math", "backward_math",
        "cudnn_math_override"}},
      {"ConvolutionParameter",
       {"conv_algos_override", "cudnn_convolution_algo_seeker", "deterministic"}},
      {"BatchNormParameter", {"engine"}},
      {"BNParameter", {"engine"}},
      {"EltwiseParameter", {"engine"}},
      {"ConcatParameter", {"engine"}},
      {"SplitParameter", {"engine"}},
      {"InnerProductParameter", {"engine"}},
      {"DropoutParameter", {"engine"}},
      {"DataParameter", {"threads", "parser_threads", "cache"}},
      {"ImageDataParameter", {"threads", "cache"}},
      {"TransformationParameter", {"use_gpu_transform"}},
      {"ReLUParameter", {"fuse"}},
  };
  return fields;
}

}  // namespace

std::string WhyIgnored(const std::string& message, const std::string& field) {
  if (message == "NetParameter" && field == "bn_stats_batch_size") {
    return "statistics are those of the whole batch";
  }
  if (message == "LayerParameter" && field == "quantization_param") {
    return "layers compute with floats";
  }
  const auto found = Implementation().find(message);
  if (found == Implementation().end() || found->second.count(field) == 0) return "";
  return "it chooses among implementations of a fork of Caffe";
}

}  // namespace millrace::inline proto
