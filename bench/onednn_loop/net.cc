// What the steps of a net share: data, memory, the run, the profile.
#include "bench/onednn_loop/net.h"

#include <chrono>
#include <cstdio>
#include <map>

#include "bench/onednn_loop/kernels.h"

namespace onednn_loop {
namespace {

constexpr size_t kBatches = 4;

}  // namespace

Formulation BestFormulation(const NetSpec& spec) {
  // oneDNN 2.6 has fast max pooling for AVX-512 only. Its kernels are for whole vectors
  // of channels: see gemm_conv.h.
  const bool avx512 = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return {spec.blocked, !avx512, !spec.blocked};
}

Net::Net(const NetSpec& spec, const Formulation& how, float* weights, uint32_t seed, bool profile)
    : spec_(spec),
      how_(how),
      profile_(profile),
      table_(PlaceParams(spec)),
      weights_(weights),
      gradients_(AllocateHuge(table_.size * sizeof(float))),
      history_(AllocateHuge(table_.size * sizeof(float))) {
  for (uint32_t i = 0; i < 16; ++i) random_[i] = 0x9e3779b9u * (seed * 16 + i + 1);
  MakeData(seed);
  Build();
  scratch_ = AllocateHuge(scratch_bytes_);
  for (dnnl::memory& scratchpad : scratchpads_) scratchpad.set_data_handle(scratch_.get());
}

// Noise with a bright square whose place depends on the class, so that the loss
// falls.
void Net::MakeData(uint32_t seed) {
  const size_t side = spec_.size, count = spec_.channels * side * side;
  labels_.resize(kBatches * spec_.batch);
  images_ = AllocateHuge(labels_.size() * count * sizeof(float));
  uint32_t state = seed + 1;
  for (size_t n = 0; n < labels_.size(); ++n) {
    float* const image = images_.get() + n * count;
    for (size_t i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      image[i] = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
    }
    labels_[n] = static_cast<int>((state >> 8) % 10);
    const size_t cell = side / 4;
    float* const corner = image + labels_[n] / 4 * cell * side + labels_[n] % 4 * cell;
    for (size_t y = 0; y < cell; ++y) {
      for (size_t x = 0; x < cell; ++x) corner[y * side + x] += 1;
    }
  }
}

void Net::Iterate() {
  const size_t first = iteration_++ % kBatches * spec_.batch;
  input_.set_data_handle(images_.get() + first * spec_.channels * spec_.size * spec_.size);
  batch_labels_ = labels_.data() + first;
  if (!profile_) {
    for (Step& step : steps_) step.run();
    return;
  }
  auto before = std::chrono::steady_clock::now();
  for (Step& step : steps_) {
    step.run();
    const auto now = std::chrono::steady_clock::now();
    step.seconds += std::chrono::duration<double>(now - before).count();
    before = now;
  }
}

void Net::ClearProfile() {
  for (Step& step : steps_) step.seconds = 0;
}

void Net::PrintProfile(double iterations) const {
  double sum = 0;
  std::map<std::string, double> by_pass;
  for (const Step& step : steps_) {
    sum += step.seconds;
    by_pass[step.pass] += step.seconds;
  }
  const auto print = [&](const char* layer, const char* pass, double seconds) {
    std::fprintf(stderr, "%-8s %-14s %9.3f ms %5.1f %%\n", layer, pass, seconds / iterations * 1e3,
                 seconds / sum * 100);
  };
  for (const Step& step : steps_) print(step.layer.c_str(), step.pass.c_str(), step.seconds);
  for (const auto& [pass, seconds] : by_pass) print("all", pass.c_str(), seconds);
  print("all", "sum", sum);
}

void Net::Add(Steps* to, const std::string& layer, const std::string& pass,
              std::function<void()> run) {
  to->push_back({layer, pass, std::move(run)});
}

dnnl::memory Net::Make(const dnnl::memory::desc& desc) {
  buffers_.push_back(AllocateHuge(desc.get_size()));
  return View(desc, buffers_.back().get());
}

dnnl::memory Net::View(const dnnl::memory::desc& desc, float* start) {
  return dnnl::memory(desc, engine_, start);
}

Net::Tensor Net::MakeTensor(const dnnl::memory::dims& dims, const dnnl::memory::desc& desc) {
  return {dims, Make(desc), Make(desc)};
}

dnnl::memory::desc Net::ActivationDesc(const dnnl::memory::dims& dims) const {
  using Tag = dnnl::memory::format_tag;
  const bool avx512 = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  const Tag tag = !how_.blocked ? Tag::nhwc : avx512 ? Tag::nChw16c : Tag::nChw8c;
  return {dims, dnnl::memory::data_type::f32, tag};
}

void Net::AddUpdate() {
  constexpr float kMomentum = 0.9f;
  Add(&steps_, "all", "update", [this] {
    for (const Param& param : table_.params) {
      SgdUpdate(weights_ + param.offset, gradients_.get() + param.offset,
                history_.get() + param.offset, param.count, spec_.rate * param.rate_mult, kMomentum,
                spec_.decay * param.decay_mult);
    }
  });
}

}  // namespace onednn_loop
