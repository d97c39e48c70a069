#ifndef MILLRACE_MODEL_LOADED_NET_H_
#define MILLRACE_MODEL_LOADED_NET_H_

#include <optional>
#include <string>

#include "data/data_service.h"
#include "millrace/device.h"
#include "nn/net.h"
#include "weights/device_weights.h"

namespace millrace::inline model {

// Formats of other programs that a net with its weights can be written in.

// Writes `net`, on the host, in plain memory order and with its weights bound, to the file `path`.
// Throws Error with one line that names all layers which the format has nothing for.
using WriteModelFile = void (*)(const BuiltNet& net, const std::string& path);

// Registers a writer. Define one at namespace scope, in a file that is compiled only where the
// library of the format is installed.
struct RegisterModelFormat {
  RegisterModelFormat(const std::string& format, WriteModelFile write);
};

// The writer of `format`, the value of a flag --to. Throws Error naming the flag if there is no
// such format, or if this build lacks its library.
WriteModelFile FindModelFormat(const std::string& format);

// A net with weights from files, for tools that run it or write it in another form.
class LoadedNet {
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
