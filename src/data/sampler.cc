// Samplers "shard", "same" and "shuffle".
#include "data/sampler.h"

#include <utility>

#include "data/schedule.h"
#include "proto/part_values.h"

namespace millrace {

RegisterSampler::RegisterSampler(PartDescriptor descriptor, SamplerFactory make,
                                 bool needs_labels) {
  Samplers().Register(
      {.part = std::move(descriptor), .needs_labels = needs_labels, .make = std::move(make)});
}

}  // namespace millrace
namespace millrace::inline data {

SamplerRegistry& Samplers() {
  static SamplerRegistry registry = [] {
    SamplerRegistry made("sampler");
    made.Register({.part = {.name = "shard"}});
    made.Register({.part = {.name = "same"}, .same_for_all = true});
    return made;
  }();
  return registry;
}

void CheckSampler(const caffe::SolverParameter& param) {
  if (!param.has_sampler()) return;
  Samplers().Choose("sampler", param.sampler().type(), ValuesOf(param.sampler().param()));
}

namespace {

// Another order in each epoch, of the records of all shards.
class ShuffleSampler : public Sampler {
 public:
  explicit ShuffleSampler(const SampledData& data)
      : total_(data.total), seed_(data.seed), stream_(data.stream) {}

  uint64_t Record(uint64_t epoch, uint64_t number) const override {
    return Permutation(seed_, stream_, epoch, total_)(number);
  }

 private:
  const uint64_t total_, seed_, stream_;
};

const RegisterSampler shuffle({.name = "shuffle"}, [](const SampledData& data, const PartValues&) {
  return std::make_shared<ShuffleSampler>(data);
});

}  // namespace
}  // namespace millrace::inline data
