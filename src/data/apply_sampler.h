// Gives a layer's stream the order that a sampler asks for.
#ifndef MILLRACE_DATA_APPLY_SAMPLER_H_
#define MILLRACE_DATA_APPLY_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "data/common_order.h"
#include "data/stream_options.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {

// Sets stream.options.sampler: to that of a layer of `others`, so that records of several layers
// stay together. `param` has been checked (CheckSampler). `seed`, `key`: as SampledData's seed and
// stream. Throws FieldError relative to `layer` if its records cannot be read in that order, Error
// if they cannot be read at all.
void ApplySampler(const caffe::PartParameter& param, const caffe::LayerParameter& layer,
                  const std::vector<OpenLayer*>& others, uint64_t seed, uint64_t key,
                  LayerStream* stream);

// Whether all processes read the same batches.
bool IsSameForAll(const caffe::PartParameter& param);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_APPLY_SAMPLER_H_
