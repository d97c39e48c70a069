// Max pooling, forward and backward: our kernel against oneDNN's primitive on the
// same memory, for CaffeNet's pool1 with activations in this CPU's blocks.
#include <benchmark/benchmark.h>

#include <omp.h>

#include <dnnl.hpp>
#include <vector>

#include "base/simd.h"
#include "nn/layers/max_pool_kernel.h"

namespace millrace {
namespace {

constexpr int64_t kBatch = 16, kChannels = 96, kSide = 55, kPooledSide = 27;
constexpr int64_t kKernel = 3, kStride = 2;

struct Data {
  std::vector<float> bottom, bottom_diff, top, top_diff;

  Data()
      : bottom(kBatch * kChannels * kSide * kSide),
        bottom_diff(bottom.size()),
        top(kBatch * kChannels * kPooledSide * kPooledSide),
        top_diff(top.size(), 1.0f) {
    uint32_t state = 1;
    for (float& value : bottom) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8);
    }
  }
};

int64_t Block() { return BestSimd() == Simd::kAvx512 ? 16 : 8; }

void Count(benchmark::State& state) { state.SetItemsProcessed(state.iterations() * kBatch); }

void MaxPoolOurs(benchmark::State& state) {
  Data data;
  std::vector<int32_t> which(data.top.size());
  const PoolingGeometry geometry{{kKernel, kKernel}, {kStride, kStride}, {0, 0}, {0, 0}};
  const int64_t outer = kBatch * kChannels / Block();
  const SpatialView bottom{outer, kSide, kSide, Block()};
  const SpatialView top{outer, kPooledSide, kPooledSide, Block()};
  for (auto _ : state) {
    MaxPoolForward(geometry, bottom, top, data.bottom.data(), data.top.data(), which.data());
    MaxPoolBackward(geometry, bottom, top, data.top_diff.data(), which.data(),
                    data.bottom_diff.data());
    benchmark::ClobberMemory();
  }
  Count(state);
}
BENCHMARK(MaxPoolOurs)->Unit(benchmark::kMillisecond);

void MaxPoolOneDnn(benchmark::State& state) {
  using dnnl::memory;
  omp_set_num_threads(1);
  Data data;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto tag = Block() == 16 ? memory::format_tag::nChw16c : memory::format_tag::nChw8c;
  const memory::desc bottom({kBatch, kChannels, kSide, kSide}, memory::data_type::f32, tag);
  const memory::desc top({kBatch, kChannels, kPooledSide, kPooledSide}, memory::data_type::f32,
                         tag);
  const memory::dims stride{kStride, kStride}, kernel{kKernel, kKernel}, none{0, 0};
  const auto kind = dnnl::algorithm::pooling_max;
  const dnnl::pooling_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kind, bottom, top, stride, kernel, none, none}, engine);
  const dnnl::pooling_backward::primitive_desc backward(
      {kind, bottom, top, stride, kernel, none, none}, engine, forward);
  const memory workspace(forward.workspace_desc(), engine);
  const memory x(bottom, engine, data.bottom.data()), y(top, engine, data.top.data());
  const memory dx(bottom, engine, data.bottom_diff.data());
  const memory dy(top, engine, data.top_diff.data());
  const dnnl::pooling_forward run_forward(forward);
  const dnnl::pooling_backward run_backward(backward);
  for (auto _ : state) {
    run_forward.execute(stream,
                        {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, workspace}});
    run_backward.execute(
        stream,
        {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}, {DNNL_ARG_WORKSPACE, workspace}});
    benchmark::ClobberMemory();
  }
  state.SetLabel(forward.impl_info_str());
  Count(state);
}
BENCHMARK(MaxPoolOneDnn)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace
