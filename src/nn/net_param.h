// Transforms a net description before layers are created: earlier formats are upgraded, layers of
// other phases are removed, a blob with several consumers gets a Split, and names become unique.
// Pure functions on messages.
#ifndef MILLRACE_NN_NET_PARAM_H_
#define MILLRACE_NN_NET_PARAM_H_

#include <map>
#include <string>
#include <vector>

#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline nn {

// A layer with its path in the net file ("layer[3]", or "layers[3]" in earlier formats), for
// SourceMap::Where; "" if the net inserts it.
struct PlacedLayer {
  caffe::LayerParameter param;
  std::string path;
  // The name in the file; differs from param.name() if GiveUniqueNames has changed that.
  std::string name_in_file = param.name();
};

// "file:line: layer 'name': field: " without the parts that are empty.
std::string PlaceOf(const SourceMap& source, const PlacedLayer& layer,
                    const std::string& field = "");

// Whether `state` meets `rule`: phase, level range, all of its stages and none
// of its not_stages.
bool StateMeetsRule(const caffe::NetState& state, const caffe::NetStateRule& rule);

// The layers that `state` includes, of a net in any of Caffe's formats (proto/upgrade.h).
// Throws Error with the position in the file for contradictory rules and nets that cannot be
// upgraded. `notices`, if not null, receives a line for each thing that was upgraded or dropped.
std::vector<PlacedLayer> SelectLayers(const caffe::NetParameter& net, const caffe::NetState& state,
                                      const SourceMap& source,
                                      std::vector<std::string>* notices = nullptr);

// Inserts Split layers, named as Caffe names them ("<blob>_<layer>_<i>_split"). Throws Error with
// the position in the file for a bottom that no earlier layer writes.
std::vector<PlacedLayer> InsertSplits(const std::vector<PlacedLayer>& layers,
                                      const SourceMap& source);

// Gives layers distinct names, as parameters and streams of data need them. In a net file, layers
// may have the same name or none. A name is kept by the first layer that has it; the others get
// "NAME#2", "NAME#3" and so on, in the order of the file. Layers without a name get "TYPE#1",
// "TYPE#2" and so on.
void GiveUniqueNames(std::vector<PlacedLayer>* layers);

struct Multipliers {
  float lr = 1, decay = 1;  // lr_mult, decay_mult
};

// The multipliers of each parameter that has a share name: those of the first layer that states
// them, whether or not it owns the parameter, as in Caffe.
std::map<std::string, Multipliers> SharedMultipliers(const std::vector<PlacedLayer>& layers);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_NET_PARAM_H_
