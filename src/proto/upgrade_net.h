// Brings nets in Caffe's earlier formats, text or binary, to today's. Pure functions on messages;
// the rules are those of Caffe 1.0 (its upgrade_proto.cpp):
//
//   `layers` with a `layer` inside (V0, 2013)    V1, see upgrade_v0.h
//   `layers` with a number as type (V1)          `layer` with a name as type, see upgrade_v1.h
//   scale, mean_file, crop_size and mirror of a
//   data layer's own message                     transform_param (of `layers` only)
//   input, with input_shape or input_dim         an Input layer before all others
//   input alone (in old models)                  nothing
//   BatchNorm with three param entries           their lr_mult and decay_mult are 0
//
// and, of the fork for fully convolutional nets,
//
//   layers { type: CROP } without an offset      Crop with one, see crop_offsets.h
#ifndef MILLRACE_PROTO_UPGRADE_NET_H_
#define MILLRACE_PROTO_UPGRADE_NET_H_

#include <string>
#include <vector>

#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline proto {

struct NetUpgrade {
  // What was in an earlier format ("V1 layers", "input fields"); empty if nothing was.
  std::vector<std::string> changes;
  // One line each, with the position in the file: what has no meaning in today's format and was
  // dropped. Caffe drops the same.
  std::vector<std::string> problems;
  // The same, of what Caffe ignores without a word.
  std::vector<std::string> ignored;
  // For each layer of the upgraded net its path in the net as written ("layers[3]"), for
  // SourceMap::Where.
  std::vector<std::string> layer_paths;
};

// Whether UpgradeNet would change `net`.
bool NeedsUpgrade(const caffe::NetParameter& net);

// Upgrades `net` in place. `source`: where its fields stand. Throws Error, with the position in the
// file, if `net` mixes the formats, and for layers that have no meaning (upgrade_v0.h); `net` is
// then undefined.
NetUpgrade UpgradeNet(const SourceMap& source, caffe::NetParameter* net);

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_UPGRADE_NET_H_
