// The three nets that the loop trains, and where their parameters lie.
#ifndef MILLRACE_BENCH_ONEDNN_LOOP_NETS_H_
#define MILLRACE_BENCH_ONEDNN_LOOP_NETS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace onednn_loop {

enum class Kind { kConv, kMaxPool, kAvePool, kLrn, kInnerProduct };

struct LayerSpec {
  Kind kind;
  std::string name;
  int outputs = 0;
  int kernel = 0, stride = 1, pad = 0;
  int group = 1;
  bool relu = false;     // fused behind a convolution or an inner product
  bool dropout = false;  // behind the ReLU: half of the units
};

struct NetSpec {
  std::string name;
  int batch, channels, size, classes;  // images are size x size
  float rate, decay;                   // momentum is 0.9 everywhere
  bool blocked;                        // the fastest order of activations: blocks, else nhwc
  std::vector<LayerSpec> layers;
};

// "lenet", "quick" (cifar10_quick) or "caffenet"; throws std::invalid_argument.
NetSpec NetSpecOf(const std::string& name);

// The weights or the bias of a layer in the flat array, in Caffe's order (oihw).
struct Param {
  size_t offset, count;  // in floats; offsets are multiples of 16
  float rate_mult, decay_mult;
  float amplitude;  // of the uniform filler
};

struct ParamTable {
  std::vector<Param> params;  // weights and bias of each layer that has them, in turn
  size_t size = 0;            // of the flat array, in floats
};
ParamTable PlaceParams(const NetSpec& net);

// The same start for every run.
void FillWeights(const ParamTable& table, float* weights);

}  // namespace onednn_loop

#endif  // MILLRACE_BENCH_ONEDNN_LOOP_NETS_H_
