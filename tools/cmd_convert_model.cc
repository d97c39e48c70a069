// millrace convert: writes a net and its weights in another program's format.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include "model/loaded_net.h"
#include "nn/net_text.h"
#include "tools/command.h"
#include "tools/flags.h"

DECLARE_string(output);
DEFINE_string(to, "", "the format to write: onnx");

namespace millrace {
namespace {

int RunConvert(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  RequireFlag("to", FLAGS_to);
  RequireFlag("model", FLAGS_model);
  RequireFlag("weights", FLAGS_weights);
  RequireFlag("output", FLAGS_output);
  const WriteModelFile write = FindModelFormat(FLAGS_to);
  caffe::NetParameter param;
  SourceMap source;
  LoadNet(FLAGS_model, &param, &source);
  LoadedNet loaded(param, source, NetStateFromFlags(param, caffe::TEST), FLAGS_weights,
                   &HostDevice(), Layout::kPlain);
  write(loaded.net(), FLAGS_output);
  LOG(INFO) << "Wrote " << FLAGS_output;
  return 0;
}

const RegisterCommand registered({"convert",
                                  "",
                                  "writes a net and its weights in another program's format",
                                  {"to", "model", "weights", "output", "level", "stage", "plugins"},
                                  RunConvert});

}  // namespace
}  // namespace millrace
