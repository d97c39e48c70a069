// The offsets of Crop layers of the fork for fully convolutional nets (V1 `type: CROP`), which
// gives none: the fork crops its first bottom so that it lies over its second one, as the geometry
// of the layers between them and a blob that both come from says.
#ifndef MILLRACE_PROTO_CROP_OFFSETS_H_
#define MILLRACE_PROTO_CROP_OFFSETS_H_

#include <set>
#include <string>

#include "proto/caffe.pb.h"

namespace millrace::inline proto {

// Sets crop_param of the layers of `net`, in today's format, whose indices are in `crops`. Throws
// FieldError("layer[i]", ...) where the geometry does not tell offsets.
void SetCropOffsets(const std::set<int>& crops, caffe::NetParameter* net);

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_CROP_OFFSETS_H_
