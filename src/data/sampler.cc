#include "data/sampler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/rng.h"
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
  static SamplerRegistry registry(
      "sampler", {{.part = {.name = "shard"}}, {.part = {.name = "same"}, .same_for_all = true}});
  return registry;
}

void CheckSampler(const caffe::SolverParameter& param) {
  if (!param.has_sampler()) return;
  Samplers().Choose("sampler", param.sampler().type(), ValuesOf(param.sampler().param()));
}

namespace {

// "shuffle": another order in each epoch, of the records of all shards.
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

// Sampler "weighted": each number is a draw of its own, with replacement. Label l is drawn with
// probability n_l w_l / sum over all labels k of n_k w_k, then one of its n_l records, all with the
// same probability. The parameter named as the label is its weight w_l, 1 if it is not given; if
// none is given, w_l = 1 / n_l, so that all labels are equally likely.
class WeightedSampler : public Sampler {
 public:
  WeightedSampler(const SampledData& data, const PartValues& weights)
      : seed_(data.seed), stream_(data.stream) {
    std::map<int32_t, std::vector<uint32_t>> by_label;
    for (size_t i = 0; i < data.labels.size(); ++i) {
      by_label[data.labels[i]].push_back(static_cast<uint32_t>(i));
    }
    for (const auto& [name, weight] : weights) {
      if (by_label.count(std::stoi(name)) == 0) {
        throw Error("the sampler weighted has a weight of label ", name,
                    ", which no record of the data has");
      }
    }
    for (auto& [label, records] : by_label) {
      const auto count = static_cast<double>(records.size());
      const auto given = weights.find(std::to_string(label));
      const double weight = weights.empty()          ? 1 / count
                            : given == weights.end() ? 1
                                                     : given->second;
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + count * weight);
      records_.push_back(std::move(records));
    }
    if (!(ends_.back() > 0)) throw Error("the sampler weighted: the weights of all labels are 0");
  }

  uint64_t Record(uint64_t epoch, uint64_t number) const override {
    Rng rng(seed_, {kRngShuffle, stream_, epoch, number});
    const double at = static_cast<double>(rng.Next64() >> 11) * 0x1p-53 * ends_.back();
    // The first label whose end is above `at`: labels of weight 0 are never drawn. The product may
    // be rounded up to the last end.
    auto found = std::upper_bound(ends_.begin(), ends_.end(), at);
    if (found == ends_.end()) found = std::lower_bound(ends_.begin(), ends_.end(), ends_.back());
    const std::vector<uint32_t>& of_label = records_[found - ends_.begin()];
    return of_label[rng.Below(of_label.size())];
  }

 private:
  const uint64_t seed_, stream_;
  std::vector<double> ends_;                    // by label: sum of the masses up to it
  std::vector<std::vector<uint32_t>> records_;  // by label
};

const RegisterSampler weighted(
    {.name = "weighted", .numbered = true},
    [](const SampledData& data, const PartValues& values) {
      return std::make_shared<WeightedSampler>(data, values);
    },
    /*needs_labels=*/true);

}  // namespace
}  // namespace millrace::inline data
