// Samplers: which record of the training data is the next one, by name (docs/learning.md). A
// layer's stream (schedule.h) divides the numbers 0 .. total-1 of each epoch over the processes of
// a run, its shards; a sampler says which record has a number. So each pair of an epoch and a
// number comes once in a run, whatever the number of processes.
#ifndef MILLRACE_DATA_SAMPLER_H_
#define MILLRACE_DATA_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/part.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// Immutable, thread-safe.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // The record, below the total, that has `number` in `epoch`; number < total.
  virtual uint64_t Record(uint64_t epoch, uint64_t number) const = 0;
};

// What a sampler knows of its data.
struct SampledData {
  uint64_t total = 0;                // records, at least one
  uint64_t seed = 0, stream = 0;     // key of random choices; the same for all processes of a run
  std::vector<int32_t> labels = {};  // by record, if the sampler needs them
};

struct SamplerEntry {
  PartDescriptor part;
  // All processes read the same batches, those of the first shard.
  bool same_for_all = false;
  bool needs_labels = false;
  // Makes the sampler; null: records are in the order of their numbers. Throws Error in one line.
  std::function<std::shared_ptr<const Sampler>(const SampledData& data, const PartValues& values)>
      make = nullptr;
};

using SamplerRegistry = PartRegistry<SamplerEntry>;
SamplerRegistry& Samplers();

// Checks the solver file's `sampler`. Throws FieldError relative to the file.
void CheckSampler(const caffe::SolverParameter& param);

// Define one at namespace scope.
struct RegisterSampler {
  explicit RegisterSampler(SamplerEntry entry) { Samplers().Register(std::move(entry)); }
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_SAMPLER_H_
