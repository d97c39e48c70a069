// The handle of a net.
#ifndef MILLRACE_CAPI_NET_H_
#define MILLRACE_CAPI_NET_H_

#include <memory>
#include <string>
#include <vector>

#include "capi/texts.h"
#include "millrace/millrace.h"
#include "millrace/net.h"

struct millrace_net {
  // A net of a session, which outlives the handle.
  explicit millrace_net(millrace::Net* net);
  // A net of its own.
  explicit millrace_net(std::unique_ptr<millrace::Net> net) : millrace_net(net.get()) {
    owned = std::move(net);
  }

  // A learnable array of a layer; several layers may share the memory of one.
  struct Parameter {
    const char* name;
    millrace::Blob* blob;
  };

  std::unique_ptr<millrace::Net> owned;
  millrace::Net& net;
  millrace::Texts texts;
  // What does not change as long as the net exists.
  std::vector<const char*> blobs, inputs, outputs, layer_names, layer_types;
  std::vector<Parameter> parameters;
};

#endif  // MILLRACE_CAPI_NET_H_
