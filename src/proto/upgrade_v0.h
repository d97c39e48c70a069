// Upgrades layers of the first format (V0, of 2013), in which one message holds the parameters of
// all types, to V1.
#ifndef MILLRACE_PROTO_UPGRADE_V0_H_
#define MILLRACE_PROTO_UPGRADE_V0_H_

#include <string>
#include <vector>

#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline proto {

// Whether any layer of `net` is in format V0.
bool HasV0Layers(const caffe::NetParameter& net);

// Replaces net->layers() by their V1 form. A "padding" layer disappears: its pad moves to the
// convolution or pooling layers behind it. `indices` receives, for each layer that remains, its
// index before. Appends one line to `problems` for each field that the layer's type did not have;
// such fields are dropped. Throws Error, with the position in the file, for an unknown type, an
// unknown bottom, a layer that is not V0, and padding before any other type of layer.
void UpgradeV0Layers(const SourceMap& source, caffe::NetParameter* net, std::vector<int>* indices,
                     std::vector<std::string>* problems);

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_UPGRADE_V0_H_
