// The samplers of this program (millrace/sampler.h), by name: which record of the training data is
// the next one. A layer's stream (schedule.h) divides the numbers 0 .. total-1 of each epoch over
// the processes of a run, its shards; a sampler says which record has a number. So each pair of an
// epoch and a number comes once in a run, whatever the number of processes.
#ifndef MILLRACE_DATA_SAMPLER_H_
#define MILLRACE_DATA_SAMPLER_H_

#include "base/part.h"
#include "millrace/sampler.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

struct SamplerEntry {
  PartDescriptor part;
  // All processes read the same batches, those of the first shard.
  bool same_for_all = false;
  bool needs_labels = false;
  // Null: records are in the order of their numbers.
  SamplerFactory make = nullptr;
};

using SamplerRegistry = PartRegistry<SamplerEntry>;
SamplerRegistry& Samplers();

// Checks the solver file's `sampler`. Throws FieldError relative to the file.
void CheckSampler(const caffe::SolverParameter& param);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_SAMPLER_H_
