// One net written out as a list of steps: forward, backward and update, each a
// oneDNN primitive or a kernel of ours. Used by the one thread that built it.
#ifndef MILLRACE_BENCH_ONEDNN_LOOP_NET_H_
#define MILLRACE_BENCH_ONEDNN_LOOP_NET_H_

#include <cstdint>
#include <dnnl.hpp>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/onednn_loop/huge_buffer.h"
#include "bench/onednn_loop/nets.h"

namespace onednn_loop {

// How the steps are computed.
struct Formulation {
  bool blocked;    // 4-axis activations in blocks of 8 channels, 16 with AVX-512; else nhwc
  bool hand_pool;  // max pooling by our kernel; else by oneDNN
  // Backward passes of nhwc convolutions (but the first) as matrix products.
  bool gemm_backward;
};
// The fastest for this net on this processor.
Formulation BestFormulation(const NetSpec& spec);

class Net {
 public:
  // `weights` holds PlaceParams(spec).size floats, is shared with other nets and
  // outlives this one. Gradients, momentum and data, which differ from seed to
  // seed, are the net's own.
  Net(const NetSpec& spec, const Formulation& how, float* weights, uint32_t seed, bool profile);
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  // One training iteration on the next of four batches.
  void Iterate();
  // Of the last iteration, before its update.
  float loss() const { return loss_; }

  // With `profile`: each step's share, on stderr.
  void ClearProfile();
  void PrintProfile(double iterations) const;

 private:
  struct Step {
    std::string layer, pass;
    std::function<void()> run;
    double seconds = 0;
  };
  using Steps = std::vector<Step>;
  using Args = std::unordered_map<int, dnnl::memory>;

  // A tensor between two layers and its gradient.
  struct Tensor {
    dnnl::memory::dims dims;
    dnnl::memory data, diff;
    bool relu = false;  // the output of a fused ReLU
    bool needs_diff = true;
  };

  void MakeData(uint32_t seed);
  void Build();
  // Each adds its forward steps to steps_ and returns its output; `back` gets the
  // backward steps in their order.
  Tensor AddConv(const LayerSpec& layer, Tensor x, const Param* params, bool before_max_pool,
                 Steps* back);
  void AddGemmBackward(const LayerSpec& layer, const Tensor& x, const Tensor& y,
                       const Param* params, Steps* back);
  Tensor AddPool(const LayerSpec& layer, const Tensor& x, Steps* back);
  Tensor AddHandPool(const LayerSpec& layer, const Tensor& x, Tensor y, Steps* back);
  Tensor AddLrn(const LayerSpec& layer, const Tensor& x, Steps* back);
  Tensor AddInnerProduct(const LayerSpec& layer, Tensor x, const Param* params, Steps* back);
  // In CHW order, as Caffe flattens.
  Tensor Flatten(const std::string& layer, const Tensor& x, Steps* back);
  void AddUpdate();

  void Add(Steps* to, const std::string& layer, const std::string& pass, std::function<void()> run);
  // A primitive; its scratchpad is the one that all steps share.
  template <class Primitive, class PrimitiveDesc>
  void AddPrimitive(Steps* to, const std::string& layer, const std::string& pass,
                    const PrimitiveDesc& pd, Args args);
  void AddReorder(Steps* to, const std::string& layer, const dnnl::memory& from,
                  const dnnl::memory& into);
  // The mask of x's ReLU, on x's diff.
  void AddMask(Steps* to, const std::string& layer, const Tensor& x);

  dnnl::memory Make(const dnnl::memory::desc& desc);
  dnnl::memory View(const dnnl::memory::desc& desc, float* start);
  Tensor MakeTensor(const dnnl::memory::dims& dims, const dnnl::memory::desc& desc);
  dnnl::memory::desc ActivationDesc(const dnnl::memory::dims& dims) const;

  const NetSpec spec_;
  const Formulation how_;
  const bool profile_;
  const ParamTable table_;
  float* const weights_;
  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};

  HugeBuffer gradients_, history_, images_, scratch_;
  std::vector<int> labels_;
  std::vector<HugeBuffer> buffers_;        // of Make
  std::vector<dnnl::memory> scratchpads_;  // of the primitives
  size_t scratch_bytes_ = 0;
  dnnl::memory input_;
  const int* batch_labels_ = nullptr;
  Steps steps_;
  uint32_t random_[16];
  size_t iteration_ = 0;
  float loss_ = 0;
};

}  // namespace onednn_loop

#endif  // MILLRACE_BENCH_ONEDNN_LOOP_NET_H_
