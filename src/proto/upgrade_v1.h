// Upgrades layers of the format before August 2014 (V1), whose types are numbers, to today's.
#ifndef MILLRACE_PROTO_UPGRADE_V1_H_
#define MILLRACE_PROTO_UPGRADE_V1_H_

#include "proto/caffe.pb.h"

namespace millrace::inline proto {

// The name of a layer type today ("InnerProduct"); "" for NONE.
const char* TypeNameOf(caffe::V1LayerParameter::LayerType type);

// Whether a data layer has fields of its transformation in its own message (data_param.scale).
bool HasTransformationFields(const caffe::V1LayerParameter& layer);
// Moves them to transform_param.
void MoveTransformationFields(caffe::V1LayerParameter* layer);

// The same layer in today's format. Takes the arrays out of `layer`. Throws Error for a V0 layer.
caffe::LayerParameter UpgradeV1Layer(caffe::V1LayerParameter* layer);

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_UPGRADE_V1_H_
