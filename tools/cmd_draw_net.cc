// millrace draw_net: draws a net.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <memory>

#include "data/data_service.h"
#include "model/net_diagram.h"
#include "nn/net.h"
#include "nn/net_text.h"
#include "tools/command.h"
#include "tools/flags.h"

DEFINE_string(output, "", "the file to write, or what the names of several begin with");
DEFINE_string(rankdir, "TB", "where the data flows: TB (down), LR (right), BT or RL");

namespace millrace {
namespace {

// The net, for shapes and weights; null, with a warning, if it cannot be built here, for example
// because its data is elsewhere.
std::unique_ptr<BuiltNet> TryToBuild(const caffe::NetParameter& param, const SourceMap& source,
                                     const BuiltNetOptions& options) {
  try {
    return std::make_unique<BuiltNet>(param, source, options);
  } catch (const Error& error) {
    LOG(WARNING) << error.what() << "; drawing without shapes";
    return nullptr;
  }
}

int RunDrawNet(const std::vector<std::string>& arguments) {
  // Caffe's draw_net.py takes the net and the picture as arguments.
  if (arguments.size() == 2 && FLAGS_model.empty() && FLAGS_output.empty()) {
    FLAGS_model = arguments[0];
    FLAGS_output = arguments[1];
  } else {
    ExpectArguments(arguments, 0, "none beside --model and --output, or the net and the picture");
  }
  RequireFlag("model", FLAGS_model);
  RequireFlag("output", FLAGS_output);
  CheckDiagramPath(FLAGS_output);
  const DiagramDirection direction = ParseDiagramDirection(FLAGS_rankdir);
  caffe::NetParameter param;
  SourceMap source;
  LoadNet(FLAGS_model, &param, &source);
  DataService data(DataOptions{});
  BuiltNetOptions options;
  options.state = NetStateFromFlags(param);
  options.data = &data;
  const std::unique_ptr<BuiltNet> net = TryToBuild(param, source, options);
  DrawNetDiagram(NetDiagram(param, source, options.state, net.get(), direction), FLAGS_output);
  LOG(INFO) << "Drew " << FLAGS_output;
  return 0;
}

const RegisterCommand registered_draw_net({"draw_net",
                                           "[NET PICTURE]",
                                           "draws a net (with Graphviz)",
                                           {"model", "output", "rankdir", "phase", "level", "stage",
                                            "plugins"},
                                           RunDrawNet});

}  // namespace
}  // namespace millrace
