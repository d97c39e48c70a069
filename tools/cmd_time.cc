// millrace time: measures the time of each layer of a net.
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <google/protobuf/util/json_util.h>

#include <iostream>

#include "data/data_service.h"
#include "nn/net_text.h"
#include "solver/snapshot.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "train/choose_gpus.h"
#include "train/net_profiler.h"
#include "weights/device_weights.h"

namespace millrace {
namespace {

int RunTime(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  RequireFlag("model", FLAGS_model);
  if (FLAGS_iterations < 1) throw Error("--iterations=", FLAGS_iterations, ": expected at least 1");
  caffe::NetParameter param;
  SourceMap source;
  LoadNet(FLAGS_model, &param, &source);
  DataService data(DataOptions{});
  BuiltNetOptions options;
  options.state = NetStateFromFlags(param);
  options.data = &data;
  options.gpu = GpuSettingsFromFlags();
  options.device = &ChooseDevice(FLAGS_gpu);
  options.backward_without_loss = true;
  BuiltNet net(param, source, options);
  net.LogNotices();
  DeviceWeights weights(options.device, net.layout().size());
  net.BindWeights(weights.data());
  net.FillWeights();
  if (!FLAGS_weights.empty()) {
    LoadWeights(FLAGS_weights, &net);
    LogLayersWithoutSavedWeights(net);
  }
  LOG(INFO) << "*** Benchmark begins ***";
  LOG(INFO) << "Testing for " << FLAGS_iterations << " iterations.";
  const TimeReport report = TimeNet(&net, FLAGS_iterations, SteadyClock());
  LogTimes(report);
  LOG(INFO) << "*** Benchmark ends ***";
  if (FLAGS_json) {
    google::protobuf::util::JsonPrintOptions print;
    print.preserve_proto_field_names = true;
    print.always_print_primitive_fields = true;
    std::string json;
    const auto status = google::protobuf::util::MessageToJsonString(report, &json, print);
    if (!status.ok()) throw Error("time: ", status.ToString());
    std::cout << json << std::endl;
  } else {
    std::cout << TimeTable(report) << std::flush;
  }
  return 0;
}

const RegisterCommand registered_time({"time",
                                       "",
                                       "measures each layer's forward and backward pass",
                                       {"model", "weights", "gpu", "precision", "gpu_fused_bias",
                                        "gpu_measure_seconds", "gpu_transform", "iterations",
                                        "json", "phase", "level", "stage", "plugins"},
                                       RunTime,
                                       {"solver", "snapshot", "sigint_effect", "sighup_effect"},
                                       "millrace time --model=lenet_train_test.prototxt "
                                       "--iterations=10"});

}  // namespace
}  // namespace millrace
