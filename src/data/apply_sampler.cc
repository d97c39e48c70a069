#include "data/apply_sampler.h"

#include <glog/logging.h>

#include <utility>
#include <vector>

#include "data/sampler.h"
#include "data/schedule.h"
#include "proto/part_values.h"

namespace millrace::inline data {
namespace {

// By record, in the order of the stream's numbers.
std::vector<int32_t> LabelsOf(const LayerStream& stream) {
  std::vector<std::vector<int32_t>> labels;
  std::vector<uint64_t> sizes;
  for (const auto& source : stream.options.sources) {
    LOG(INFO) << "Reading the labels of " << source->path();
    labels.push_back(stream.labels(source.get()));
    sizes.push_back(source->size());
  }
  const Interleave interleave(sizes);
  std::vector<int32_t> all(interleave.total());
  for (uint64_t i = 0; i < all.size(); ++i) {
    const RecordLocation at = interleave.At(i);
    all[i] = labels[at.source][at.index];
  }
  return all;
}

}  // namespace

bool IsSameForAll(const caffe::PartParameter& param) {
  return param.has_type() && Samplers().Find("sampler", param.type()).same_for_all;
}

void ApplySampler(const caffe::PartParameter& param, const caffe::LayerParameter& layer,
                  uint64_t seed, uint64_t key, LayerStream* stream) {
  if (!param.has_type()) return;
  const auto [entry, values] = Samplers().Choose("sampler", param.type(), ValuesOf(param.param()));
  if (!entry.make) return;
  if (!stream->any_order) {
    throw FieldError("type", "the records of a layer of type ", layer.type(),
                     " have an order of their own, expected the sampler shard or same, not ",
                     param.type());
  }
  if (entry.needs_labels && !stream->labels) {
    throw FieldError("type", "the records of a layer of type ", layer.type(),
                     " do not have one label each, expected another sampler than ", param.type());
  }
  SampledData data{.seed = seed, .stream = key};
  std::vector<uint64_t> sizes;
  for (const auto& source : stream->options.sources) sizes.push_back(source->size());
  data.total = Interleave(sizes).total();
  if (entry.needs_labels) data.labels = LabelsOf(*stream);
  stream->options.sampler = entry.make(data, values);
}

}  // namespace millrace::inline data
