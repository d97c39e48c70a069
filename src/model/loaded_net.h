// A net with weights from files, for tools that run it or write it in another form.
#ifndef MILLRACE_MODEL_LOADED_NET_H_
#define MILLRACE_MODEL_LOADED_NET_H_

#include <optional>
#include <string>

#include "data/data_service.h"
#include "millrace/device.h"
#include "millrace/export.h"
#include "nn/net.h"
#include "weights/device_weights.h"

namespace millrace::inline model {

class MILLRACE_API LoadedNet {
 public:
  // Builds the net in `state` and logs its notices. The weights are those of the fillers, then
  // those of `weights`, a comma-separated list of .caffemodel files, which may be empty. `layout`:
  // see BuiltNetOptions. Throws Error as BuiltNet and LoadWeights do. `device` outlives the object.
  LoadedNet(const caffe::NetParameter& param, const SourceMap& source, const caffe::NetState& state,
            const std::string& weights, Device* device = &HostDevice(),
            std::optional<Layout> layout = {});

  BuiltNet& net() { return net_; }

 private:
  DataService data_;
  BuiltNet net_;
  DeviceWeights weights_;
};

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_LOADED_NET_H_
