// Gives the data layers of one net one order. Records of two sources that belong together, such as
// images and their labels, have equal numbers; they stay together if all layers shuffle alike.
#ifndef MILLRACE_DATA_COMMON_ORDER_H_
#define MILLRACE_DATA_COMMON_ORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "data/stream_options.h"

namespace millrace::inline data {

// A data layer of a net whose stream is open.
struct OpenLayer {
  LayerStream layer;
  std::shared_ptr<BatchStream> stream;
};

// The records of all sources.
uint64_t TotalRecords(const BatchStreamOptions& options);

// Changes the order of `wanted`, and of `others` where they have not been read, so that layers
// which are shuffled have one permutation if they have as many records as each other, and that
// layers which are not shuffled stay beside each other in every shard. Throws FieldError, relative
// to the layer of `wanted` and naming the other one, if there is no such order. Layers that Caffe
// itself shuffles independently of each other are not refused; logs a warning if they stay
// independent.
void AlignOrder(const std::vector<OpenLayer*>& others, LayerStream* wanted);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_COMMON_ORDER_H_
