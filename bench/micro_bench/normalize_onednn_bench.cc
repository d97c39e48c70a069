// BatchNorm and Scale in place, as in ResNet's blocks: the layers of this tree, and oneDNN's batch
// normalisation, which needs a copy of the bottom if it works in place. One thread. The argument is
// the number of images: 8 fit into a large last-level cache, 64 do not.
//
// "bytes_per_second" counts the arrays that a step has to read and write: forward 4 for BatchNorm
// (two passes over the bottom, the copy, the top) and 3 for Scale, backward 5 and 4.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <memory>

#include "nn/onednn/onednn.h"

namespace millrace {
namespace {

constexpr int64_t kChannels = 64, kSide = 56;
constexpr float kEpsilon = 1e-5f;

Shape ShapeOf(const benchmark::State& state) { return {state.range(0), kChannels, kSide, kSide}; }

// Values of variance 1, and gradients: a backward pass in place then leaves the gradients of the
// pass before as they are, and they do not decay to subnormal numbers.
void FillValues(Blob* blob) {
  for (int64_t i = 0; i < blob->count(); ++i) {
    blob->data()[i] = static_cast<float>(i * 7919 % 1000) * 3.4641e-3f;
    blob->diff()[i] = static_cast<float>(i * 7723 % 997) * 1e-3f;
  }
}

void CountBytes(benchmark::State& state, int arrays) {
  const int64_t bytes = ShapeCount(ShapeOf(state)) * static_cast<int64_t>(sizeof(float));
  state.SetBytesProcessed(state.iterations() * bytes * arrays);
}

// A layer that works in place.
struct Subject {
  Subject(const benchmark::State& state, const char* type, Layout layout) {
    omp_set_num_threads(1);
    caffe::LayerParameter param;
    param.set_name(type);
    param.set_type(type);
    param.mutable_scale_param()->set_bias_term(true);
    LayerContext context;
    context.scratch = &scratch;
    layer = LayerRegistry::Get().Create(param, context);
    blob.Reshape(ShapeOf(state), layout);
    FillValues(&blob);
    layer->SetUp(blobs, blobs);
    layer->Reshape(blobs, blobs);
    for (Param& each : layer->params()) {
      std::fill_n(each.blob->data(), each.blob->count(), 1.0f);
    }
    layer->Forward(blobs, blobs);
  }

  Scratchpad scratch;
  Blob blob;
  const Blobs blobs{&blob};
  std::unique_ptr<Layer> layer;
};

void Forward(benchmark::State& state, const char* type, Layout layout, int arrays) {
  Subject subject(state, type, layout);
  for (auto _ : state) subject.layer->Forward(subject.blobs, subject.blobs);
  CountBytes(state, arrays);
}

void Backward(benchmark::State& state, const char* type, Layout layout, int arrays) {
  Subject subject(state, type, layout);
  for (auto _ : state) subject.layer->Backward(subject.blobs, {true}, subject.blobs);
  CountBytes(state, arrays);
}

// oneDNN 3 names each array of an operation; oneDNN 2 has one name for those of the same shape.
template <typename Primitive = dnnl::batch_normalization_forward>
auto BatchNormForward(const onednn::Desc& data, dnnl::normalization_flags flags) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
  if constexpr (onednn::HasOperationDesc<Primitive>) {
    return onednn::Descs().Forward<Primitive>(kKind, data, kEpsilon, flags);
  } else {
    return onednn::Descs().Forward<Primitive>(kKind, data, data, kEpsilon, flags);
  }
}
template <typename Primitive = dnnl::batch_normalization_backward, typename ForwardDesc>
auto BatchNormBackward(const ForwardDesc& forward, const onednn::Desc& data,
                       dnnl::normalization_flags flags) {
  constexpr auto kKind = dnnl::prop_kind::backward_data;
  if constexpr (onednn::HasOperationDesc<Primitive>) {
    return onednn::Descs().Backward<Primitive>(forward, kKind, data, data, kEpsilon, flags);
  } else {
    return onednn::Descs().Backward<Primitive>(forward, kKind, data, data, data, kEpsilon, flags);
  }
}

void OnednnNormalize(benchmark::State& state, Layout layout, bool backward) {
  using dnnl::batch_normalization_backward, dnnl::batch_normalization_forward;
  omp_set_num_threads(1);
  Scratchpad scratch;
  Blob x, y;
  x.Reshape(ShapeOf(state), layout);
  y.Reshape(ShapeOf(state), layout);
  Blob mean(Shape{kChannels}), variance(Shape{kChannels});
  FillValues(&x);
  FillValues(&y);
  std::fill_n(mean.data(), kChannels, 1.732f);
  std::fill_n(variance.data(), kChannels, 1.0f);
  const onednn::Desc data = onednn::DescOf(x), channels = onednn::DescOf(mean);
  const auto flags = dnnl::normalization_flags::none;
  const auto forward = BatchNormForward(data, flags);
  onednn::Op op;
  if (backward) {
    const auto pd = BatchNormBackward(forward, data, flags);
    op = onednn::MakeOp<batch_normalization_backward>(pd,
                                                      {{DNNL_ARG_SRC, data},
                                                       {DNNL_ARG_MEAN, channels},
                                                       {DNNL_ARG_VARIANCE, channels},
                                                       {DNNL_ARG_DIFF_DST, data},
                                                       {DNNL_ARG_DIFF_SRC, data}},
                                                      &scratch);
  } else {
    op = onednn::MakeOp<batch_normalization_forward>(forward,
                                                     {{DNNL_ARG_SRC, data},
                                                      {DNNL_ARG_MEAN, channels},
                                                      {DNNL_ARG_VARIANCE, channels},
                                                      {DNNL_ARG_DST, data}},
                                                     &scratch);
  }
  const size_t bytes = static_cast<size_t>(x.count()) * sizeof(float);
  for (auto _ : state) {
    if (backward) {
      op.Run({{DNNL_ARG_SRC, x.data()},
              {DNNL_ARG_MEAN, mean.data()},
              {DNNL_ARG_VARIANCE, variance.data()},
              {DNNL_ARG_DIFF_DST, y.diff()},
              {DNNL_ARG_DIFF_SRC, x.diff()}});
    } else {
      std::copy_n(y.data(), bytes / sizeof(float), x.data());
      op.Run({{DNNL_ARG_SRC, x.data()},
              {DNNL_ARG_MEAN, mean.data()},
              {DNNL_ARG_VARIANCE, variance.data()},
              {DNNL_ARG_DST, y.data()}});
    }
  }
  CountBytes(state, backward ? 5 : 4);
}

#define MILLRACE_NORMALIZE_BENCH(Order)                                                            \
  BENCHMARK_CAPTURE(Forward, BatchNorm##Order, "BatchNorm", Layout::k##Order, 4)->Arg(8)->Arg(64); \
  BENCHMARK_CAPTURE(OnednnNormalize, Forward##Order, Layout::k##Order, false)->Arg(8)->Arg(64);    \
  BENCHMARK_CAPTURE(Backward, BatchNorm##Order, "BatchNorm", Layout::k##Order, 5)                  \
      ->Arg(8)                                                                                     \
      ->Arg(64);                                                                                   \
  BENCHMARK_CAPTURE(OnednnNormalize, Backward##Order, Layout::k##Order, true)->Arg(8)->Arg(64);    \
  BENCHMARK_CAPTURE(Forward, Scale##Order, "Scale", Layout::k##Order, 3)->Arg(8)->Arg(64);         \
  BENCHMARK_CAPTURE(Backward, Scale##Order, "Scale", Layout::k##Order, 4)->Arg(8)->Arg(64)
MILLRACE_NORMALIZE_BENCH(Plain);
MILLRACE_NORMALIZE_BENCH(Nhwc);
MILLRACE_NORMALIZE_BENCH(Blocked16);

}  // namespace
}  // namespace millrace
