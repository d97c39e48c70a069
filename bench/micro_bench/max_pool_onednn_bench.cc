// Max pooling, forward and backward: our kernel against oneDNN's primitive on the
// same memory, one thread. LeNet's pool1 has channels innermost, CaffeNet's this
// CPU's blocks of channels.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <dnnl.hpp>
#include <vector>

#include "base/simd.h"
#include "nn/layers/pooling/host_pooling.h"
#include "nn/onednn/primitive_descs.h"

namespace millrace {
namespace {

// Windows of kernel x kernel tile the square images without a rest.
struct PoolCase {
  int64_t batch, channels, side, pooled_side, kernel, stride;
  bool blocked;

  int64_t inner() const {
    if (!blocked) return channels;
    return BestSimd() == Simd::kAvx512 ? 16 : 8;
  }
  dnnl::memory::format_tag tag() const {
    using Tag = dnnl::memory::format_tag;
    return !blocked ? Tag::nhwc : inner() == 16 ? Tag::nChw16c : Tag::nChw8c;
  }
};
constexpr PoolCase kLenetPool1{64, 20, 24, 12, 2, 2, false};
constexpr PoolCase kCaffenetPool1{16, 96, 55, 27, 3, 2, true};

struct Arrays {
  std::vector<float> bottom, bottom_diff, top, top_diff;

  explicit Arrays(const PoolCase& pool)
      : bottom(pool.batch * pool.channels * pool.side * pool.side),
        bottom_diff(bottom.size()),
        top(pool.batch * pool.channels * pool.pooled_side * pool.pooled_side),
        top_diff(top.size(), 1.0f) {
    uint32_t state = 1;
    for (float& value : bottom) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8);
    }
  }
};

void MaxPoolOurs(benchmark::State& state, const PoolCase& pool) {
  Arrays arrays(pool);
  std::vector<int32_t> which(arrays.top.size());
  const PoolingShape shape{{pool.side, pool.side},
                           {pool.pooled_side, pool.pooled_side},
                           {pool.kernel, pool.kernel},
                           {pool.stride, pool.stride},
                           {0, 0}};
  const int64_t outer = pool.batch * pool.channels / pool.inner();
  const SpatialView bottom{outer, pool.side, pool.side, pool.inner()};
  const SpatialView top{outer, pool.pooled_side, pool.pooled_side, pool.inner()};
  for (auto _ : state) {
    HostMaxPoolForward(shape, bottom, top, arrays.bottom.data(), arrays.top.data(), which.data());
    HostMaxPoolBackward(shape, bottom, top, arrays.top_diff.data(), which.data(),
                        arrays.bottom_diff.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * pool.batch);
}

void MaxPoolOneDnn(benchmark::State& state, const PoolCase& pool) {
  using dnnl::memory;
  omp_set_num_threads(1);
  Arrays arrays(pool);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto desc = [&](int64_t side) {
    return memory::desc({pool.batch, pool.channels, side, side}, memory::data_type::f32,
                        pool.tag());
  };
  const memory::desc bottom = desc(pool.side), top = desc(pool.pooled_side);
  const onednn::PoolingWindows windows = {.stride = {pool.stride, pool.stride},
                                          .kernel = {pool.kernel, pool.kernel},
                                          .padding = {0, 0},
                                          .padding_end = {0, 0}};
  const auto kind = dnnl::algorithm::pooling_max;
  const onednn::PrimitiveDescs descs(engine, dnnl::primitive_attr());
  const auto forward = descs.PoolingForward(kind, bottom, top, windows);
  const auto backward = descs.PoolingBackward(forward, kind, bottom, top, windows);
  const memory workspace(forward.workspace_desc(), engine);
  const memory x(bottom, engine, arrays.bottom.data()), y(top, engine, arrays.top.data());
  const memory dx(bottom, engine, arrays.bottom_diff.data());
  const memory dy(top, engine, arrays.top_diff.data());
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
  state.SetItemsProcessed(state.iterations() * pool.batch);
}

BENCHMARK_CAPTURE(MaxPoolOurs, lenet_pool1, kLenetPool1);
BENCHMARK_CAPTURE(MaxPoolOneDnn, lenet_pool1, kLenetPool1);
BENCHMARK_CAPTURE(MaxPoolOurs, caffenet_pool1, kCaffenetPool1);
BENCHMARK_CAPTURE(MaxPoolOneDnn, caffenet_pool1, kCaffenetPool1);

}  // namespace
}  // namespace millrace
