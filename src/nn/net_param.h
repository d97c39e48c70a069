// Transforms a net description before layers are created: legacy inputs become a layer, layers of
// other phases are removed, and a blob with several consumers gets a Split. Pure functions on
// messages.
#ifndef MILLRACE_NN_NET_PARAM_H_
#define MILLRACE_NN_NET_PARAM_H_

#include <map>
#include <string>
#include <vector>

#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace {

// A layer with its index in the file's list of layers; -1 if it was added.
struct PlacedLayer {
  caffe::LayerParameter param;
  int source_index = -1;
};

// Whether `state` meets `rule`: phase, level range, all of its stages and none
// of its not_stages.
bool StateMeetsRule(const caffe::NetState& state, const caffe::NetStateRule& rule);

// The layers that `state` includes; legacy inputs come first, as an Input layer. Throws Error with
// the position in the file for contradictory rules and old-format nets.
std::vector<PlacedLayer> SelectLayers(const caffe::NetParameter& net, const caffe::NetState& state,
                                      const SourceMap& source);

// Inserts Split layers, named as Caffe names them ("<blob>_<layer>_<i>_split"). Throws Error with
// the position in the file for a bottom that no earlier layer writes.
std::vector<PlacedLayer> InsertSplits(const std::vector<PlacedLayer>& layers,
                                      const SourceMap& source);

struct Multipliers {
  float lr = 1, decay = 1;  // lr_mult, decay_mult
};

// The multipliers of each parameter that has a share name: those of the first layer that states
// them, whether or not it owns the parameter, as in Caffe.
std::map<std::string, Multipliers> SharedMultipliers(const std::vector<PlacedLayer>& layers);

}  // namespace millrace

#endif  // MILLRACE_NN_NET_PARAM_H_
