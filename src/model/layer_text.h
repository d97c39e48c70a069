// Short descriptions of layers, for pictures of nets.
#ifndef MILLRACE_MODEL_LAYER_TEXT_H_
#define MILLRACE_MODEL_LAYER_TEXT_H_

#include <cstdint>
#include <string>

#include "millrace/blob.h"
#include "proto/caffe.pb.h"

namespace millrace::inline model {

// What the fields of a layer say, in a few words: "20 × 5×5, stride 2, pad 1" of a convolution,
// "MAX 3×3, stride 2" of a pooling, "batch_size 64, backend LMDB" of others. Fillers, and fields
// that have no effect on results, are left out. "" if there is nothing to say.
std::string LayerDetails(const caffe::LayerParameter& layer);

// "64 × 20 × 24 × 24"; "1 number" for the empty shape.
std::string DimsText(const Shape& shape);

// "1,234,567".
std::string GroupedDigits(int64_t number);

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_LAYER_TEXT_H_
