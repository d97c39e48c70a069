// The SGD update against what memory gives: memcpy and the triad a = b + s * c of
// the same footprint, measured in the same run. Bytes are those that the code
// names: 20 an element for the update, 8 for memcpy, 12 for the triad.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "base/simd.h"
#include "solver/hogwild_update.h"

namespace millrace {
namespace {

constexpr int64_t kInCache = 288 << 10;  // bytes of all arrays: within an L2 cache of 512 KiB
constexpr int64_t kInMemory = 192 << 20;

// `arrays` arrays of equal size, together of range(0) bytes.
std::vector<std::vector<float>> MakeArrays(const benchmark::State& state, int arrays) {
  const int64_t count = state.range(0) / arrays / static_cast<int64_t>(sizeof(float));
  return {static_cast<size_t>(arrays), std::vector<float>(count, 1e-3f)};
}

void Count(benchmark::State& state, int64_t elements, int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * elements * bytes);
}

void SgdUpdate(benchmark::State& state) {
  auto arrays = MakeArrays(state, 3);
  const auto count = static_cast<int64_t>(arrays[0].size());
  const SgdStep step{.rate = 1e-6f, .momentum = 0.9f, .decay = 5e-4f};
  for (auto _ : state) {
    HogwildUpdateSgdL2(step, count, arrays[0].data(), arrays[1].data(), arrays[2].data());
    benchmark::ClobberMemory();
  }
  Count(state, count, 20);
}
BENCHMARK(SgdUpdate)->Arg(kInCache)->Arg(kInMemory);

void Memcpy(benchmark::State& state) {
  auto arrays = MakeArrays(state, 2);
  const size_t count = arrays[0].size();
  for (auto _ : state) {
    std::memcpy(arrays[0].data(), arrays[1].data(), count * sizeof(float));
    benchmark::ClobberMemory();
  }
  Count(state, static_cast<int64_t>(count), 8);
}
BENCHMARK(Memcpy)->Arg(kInCache)->Arg(kInMemory);

template <typename Set>
inline __attribute__((always_inline)) void TriadLoop(int64_t count, const float* b, const float* c,
                                                     float* a) {
  using Vector = typename Set::Float;
  for (int64_t i = 0; i + Set::kLanes <= count; i += Set::kLanes) {
    *reinterpret_cast<Vector*>(a + i) =
        *reinterpret_cast<const Vector*>(b + i) + 0.5f * *reinterpret_cast<const Vector*>(c + i);
  }
}

#define MILLRACE_TRIAD(Set)                                                                       \
  MILLRACE_KERNEL(Set) void Triad##Set(int64_t count, const float* b, const float* c, float* a) { \
    TriadLoop<Set>(count, b, c, a);                                                               \
  }
MILLRACE_TRIAD(Sse)
MILLRACE_TRIAD(Avx2)
MILLRACE_TRIAD(Avx512)
#undef MILLRACE_TRIAD

void Triad(benchmark::State& state) {
  auto arrays = MakeArrays(state, 3);
  const auto count = static_cast<int64_t>(arrays[0].size());
  const auto triad = BestSimd() == Simd::kAvx512 ? TriadAvx512
                     : BestSimd() == Simd::kAvx2 ? TriadAvx2
                                                 : TriadSse;
  for (auto _ : state) {
    triad(count, arrays[0].data(), arrays[1].data(), arrays[2].data());
    benchmark::ClobberMemory();
  }
  Count(state, count, 12);
}
BENCHMARK(Triad)->Arg(kInCache)->Arg(kInMemory);

}  // namespace
}  // namespace millrace
