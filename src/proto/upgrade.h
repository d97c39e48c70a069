// Brings nets and solver files in Caffe's earlier formats, text or binary, to today's. Pure
// functions on messages; the rules are those of Caffe 1.0 (its upgrade_proto.cpp):
//
//   `layers` with a `layer` inside (V0, 2013)    V1
//   `layers` with a number as type (V1)          `layer` with a name as type
//   scale, mean_file, crop_size and mirror of a
//   data layer's own message                     transform_param (of `layers` only)
//   input, with input_shape or input_dim         an Input layer before all others
//   input alone (in old models)                  nothing
//   BatchNorm with three param entries           their lr_mult and decay_mult are 0
//
// and, of the fork for fully convolutional nets,
//
//   layers { type: CROP } without an offset      Crop with one
#ifndef MILLRACE_PROTO_UPGRADE_H_
#define MILLRACE_PROTO_UPGRADE_H_

#include <set>
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
// file, if `net` mixes the formats, and for layers that have no meaning; `net` is then undefined.
NetUpgrade UpgradeNet(const SourceMap& source, caffe::NetParameter* net);

// Upgrades layers of the first format (V0, of 2013), in which one message holds the parameters of
// all types, to V1.

// Whether any layer of `net` is in format V0.
bool HasV0Layers(const caffe::NetParameter& net);

// Replaces net->layers() by their V1 form. A "padding" layer disappears: its pad moves to the
// convolution or pooling layers behind it. `indices` receives, for each layer that remains, its
// index before. Appends one line to `problems` for each field that the layer's type did not have;
// such fields are dropped. Throws Error, with the position in the file, for an unknown type, an
// unknown bottom, a layer that is not V0, and padding before any other type of layer.
void UpgradeV0Layers(const SourceMap& source, caffe::NetParameter* net, std::vector<int>* indices,
                     std::vector<std::string>* problems);

// Upgrades layers of the format before August 2014 (V1), whose types are numbers, to today's.

// The name of a layer type today ("InnerProduct"); "" for NONE.
const char* TypeNameOf(caffe::V1LayerParameter::LayerType type);

// Whether a data layer has fields of its transformation in its own message (data_param.scale).
bool HasTransformationFields(const caffe::V1LayerParameter& layer);
// Moves them to transform_param.
void MoveTransformationFields(caffe::V1LayerParameter* layer);

// The same layer in today's format. Takes the arrays out of `layer`. Throws Error for a V0 layer.
caffe::LayerParameter UpgradeV1Layer(caffe::V1LayerParameter* layer);

// The offsets of Crop layers of the fork for fully convolutional nets (V1 `type: CROP`), which
// gives none: the fork crops its first bottom so that it lies over its second one, as the geometry
// of the layers between them and a blob that both come from says.

// Sets crop_param of the layers of `net`, in today's format, whose indices are in `crops`. Throws
// FieldError("layer[i]", ...) where the geometry does not tell offsets.
void SetCropOffsets(const std::set<int>& crops, caffe::NetParameter* net);

// The name of a solver type today ("AdaGrad").
const char* TypeNameOf(caffe::SolverParameter::SolverType type);

// Makes the number solver_type the name `type`. Returns whether `solver` was in the earlier format.
// Throws FieldError if it has both fields.
bool UpgradeSolver(caffe::SolverParameter* solver);

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_UPGRADE_H_
