// millrace test: scores saved weights, or those of a running training.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <cstdio>
#include <memory>

#include "data/data_service.h"
#include "nn/net.h"
#include "nn/net_text.h"
#include "solver/snapshot.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "train/choose_gpus.h"
#include "train/evaluation/evaluator.h"
#include "weights/device_weights.h"
#include "weights/weight_buffer.h"

DEFINE_string(ap_version, "Integral", "how detections are scored: 11point, MaxIntegral, Integral");

namespace millrace {
namespace {

// Binds the weights of a running training. Their layout is that of the train net; the test net uses
// the parameters whose names it knows. A GPU uses a copy of this moment, in `copy`.
std::unique_ptr<WeightBuffer> BindLive(BuiltNet* net, DeviceWeights* copy) {
  auto live = WeightBuffer::AttachReader(FLAGS_shm, &net->layout());
  if (net->device().memory().on_host()) {
    net->BindWeights(live->data());
  } else {
    copy->CopyFromHost(live->data());
  }
  LOG(INFO) << "Evaluating /dev/shm/" << FLAGS_shm << " at iteration " << live->clock().global();
  return live;
}

ApVersion ApVersionFromFlag() {
  try {
    return ApVersionOf(FLAGS_ap_version);
  } catch (const FieldError& error) {
    throw Error("--", error.field(), "=", FLAGS_ap_version, ": ", error.what());
  }
}

int TestNet(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  RequireFlag("model", FLAGS_model);
  if (FLAGS_weights.empty() == FLAGS_shm.empty()) {
    throw Error("give --weights (saved weights) or --shm (those of a running training)");
  }
  const ApVersion version = ApVersionFromFlag();
  if (FLAGS_iterations < 1) throw Error("--iterations=", FLAGS_iterations, ": expected at least 1");
  caffe::NetParameter param;
  SourceMap source;
  LoadNet(FLAGS_model, &param, &source);
  DataService data(DataOptions{});
  BuiltNetOptions options;
  options.state = NetStateFromFlags(param, caffe::TEST);
  options.data = &data;
  options.data_scope = "test0";
  options.gpu = GpuSettingsFromFlags();
  options.device = &ChooseDevice(FLAGS_gpu);
  BuiltNet net(param, source, options);
  net.LogNotices();
  DeviceWeights weights(options.device, net.layout().size());
  net.BindWeights(weights.data());
  std::unique_ptr<WeightBuffer> live;
  if (FLAGS_shm.empty()) {
    net.FillWeights();
    LoadWeights(FLAGS_weights, &net);
    LogLayersWithoutSavedWeights(net);
  } else {
    live = BindLive(&net, &weights);
  }
  LOG(INFO) << "Running for " << FLAGS_iterations << " iterations.";
  const Evaluation result = Evaluate(
      &net, FLAGS_iterations, [] { return false; },
      [](int batch, const std::vector<OutputMean>& outputs) {
        for (const OutputMean& output : outputs) {
          LOG(INFO) << "Batch " << batch << ", " << output.name << " = " << output.mean;
        }
      },
      version);
  LOG(INFO) << "Loss: " << result.loss;
  for (const OutputMean& output : result.outputs) {
    for (const ClassPrecision& each : output.classes) {
      LOG(INFO) << "class" << each.label << ": " << each.precision.value_or(0);
    }
    LOG(INFO) << output.name << " = " << output.mean << LossNote(output.loss_weight, output.mean);
    std::printf("%s = %.6g\n", output.name.c_str(), output.mean);
  }
  return 0;
}

const RegisterCommand registered_test(
    {"test",
     "",
     "scores saved weights, or those of a running training",
     {"model", "weights", "shm", "gpu", "precision", "gpu_fused_bias", "gpu_measure_seconds",
      "gpu_transform", "iterations", "phase", "level", "stage", "plugins", "ap_version"},
     TestNet,
     {"solver", "snapshot", "sigint_effect", "sighup_effect"},
     "millrace test --model=lenet_train_test.prototxt "
     "--weights=lenet_iter_10000.caffemodel --iterations=100"});

}  // namespace
}  // namespace millrace
