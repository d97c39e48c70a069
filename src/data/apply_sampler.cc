#include "data/apply_sampler.h"

#include <glog/logging.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "data/sampler.h"
#include "data/schedule.h"
#include "proto/part_values.h"

namespace millrace::inline data {
namespace {

// Indexed by record, in the order of the stream's numbers.
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

// The sampler's order is that of `leader`, whose net also has the layer of `stream`. Throws
// FieldError if the records of the two layers cannot belong together.
void CheckFollows(const std::string& type, const OpenLayer& leader, const LayerStream& stream) {
  const uint64_t records = TotalRecords(stream.options);
  const uint64_t others = TotalRecords(leader.layer.options);
  if (records != others) {
    throw FieldError(stream.source_field, "has ", records, " records, but layer '",
                     leader.layer.options.layer, "' has ", others, ": the sampler ", type,
                     " gives the layers of a net one order, expected equal numbers of records");
  }
  const std::vector<int32_t>& labels = stream.read_labels;
  const bool differ =
      std::adjacent_find(labels.begin(), labels.end(), std::not_equal_to<>()) != labels.end();
  if (differ && labels != leader.layer.read_labels) {
    throw FieldError(stream.source_field, "has other labels than layer '",
                     leader.layer.options.layer, "', by whose labels the sampler ", type,
                     " orders the records of both: expected the layer of those labels before the "
                     "other data layers of the net");
  }
}

}  // namespace

bool IsSameForAll(const caffe::PartParameter& param) {
  return param.has_type() && Samplers().Find("sampler", param.type()).same_for_all;
}

void ApplySampler(const caffe::PartParameter& param, const caffe::LayerParameter& layer,
                  const std::vector<OpenLayer*>& others, uint64_t seed, uint64_t key,
                  LayerStream* stream) {
  if (!param.has_type()) return;
  const auto [entry, values] = Samplers().Choose("sampler", param.type(), ValuesOf(param.param()));
  if (!entry.make) return;
  if (!stream->any_order) {
    throw FieldError("type", "the records of a layer of type ", layer.type(),
                     " have an order of their own, expected the sampler shard or same, not ",
                     param.type());
  }
  if (TotalRecords(stream->options) == 1) return;  // it has no order, and follows any
  const auto leader = std::find_if(others.begin(), others.end(), [](const OpenLayer* each) {
    return each->layer.options.sampler != nullptr;
  });
  const bool follows = leader != others.end();
  if (entry.needs_labels && !stream->labels && !follows) {
    throw FieldError("type", "the records of a layer of type ", layer.type(),
                     " do not have one label each, expected another sampler than ", param.type());
  }
  if (entry.needs_labels && stream->labels) stream->read_labels = LabelsOf(*stream);
  if (follows) {
    CheckFollows(param.type(), **leader, *stream);
    stream->options.sampler = (*leader)->layer.options.sampler;
    return;
  }
  SampledData data{.total = TotalRecords(stream->options), .seed = seed, .stream = key};
  data.labels = stream->read_labels;
  stream->options.sampler = entry.make(data, values);
}

}  // namespace millrace::inline data
