// millrace serve-data: makes batches once and gives them to the workers of several processes.
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <google/protobuf/struct.pb.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/error.h"
#include "batches/batch_server.h"
#include "batches/service_address.h"
#include "control/metrics_service.h"
#include "control/run_report.h"
#include "millrace/metrics.h"
#include "nn/net_text.h"
#include "proto/parse.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/signals.h"

DECLARE_string(control);
DECLARE_string(control_certificate);
DECLARE_string(control_private_key);
DECLARE_string(key_file);
DECLARE_string(state);
DECLARE_string(phase);
DECLARE_uint64(seed);
DECLARE_int32(threads);
DEFINE_string(source, "",
              "instead of --model: a database, or another source of a Data layer named 'data'");
DEFINE_int32(batch_size, 0, "with --source: images of a batch");
DEFINE_string(transform, "", "with --source: the fields of transform_param, such as 'scale: 0.5'");
DEFINE_string(listen, "127.0.0.1:7700",
              "the address; one that other machines reach needs --key_file");
DEFINE_string(name, "train", "the name of the service, which workers give with its address");
DEFINE_bool(same, false,
            "every worker gets every batch; by default each batch goes to exactly one worker");
DEFINE_int32(max_workers, 16, "data layers of workers that may be connected");
DEFINE_int32(held, 4, "batches that each of them may hold");
DEFINE_double(worker_timeout, 10,
              "seconds after which the batches of a lost worker are given to others");
DEFINE_int64(first_batch, -1,
             "begin with this batch, also for workers that go on from an earlier service");

namespace millrace {
namespace {

// A net of one Data layer, as the flags describe it.
void NetOfFlags(caffe::NetParameter* net, SourceMap* source) {
  if (FLAGS_batch_size < 1) {
    throw Error("--batch_size=", FLAGS_batch_size, ": expected at least 1, with --source");
  }
  caffe::LayerParameter layer;
  layer.set_name("data");
  layer.set_type("Data");
  layer.add_top("data");
  layer.add_top("label");
  layer.mutable_data_param()->add_source(FLAGS_source);
  layer.mutable_data_param()->set_batch_size(static_cast<uint32_t>(FLAGS_batch_size));
  ParseNet("layer { " + layer.ShortDebugString() + " transform_param { " + FLAGS_transform + " } }",
           "the layer of --source", net, source);
}

BatchServerConfig ConfigOfFlags() {
  const auto positive = [](const char* flag, int32_t value, int32_t most) {
    if (value >= 1 && value <= most) return static_cast<uint32_t>(value);
    throw Error("--", flag, "=", value, ": expected 1 to ", most);
  };
  BatchServerConfig config;
  CheckServiceName(FLAGS_name);
  config.listen = FLAGS_listen;
  config.name = FLAGS_name;
  config.same = FLAGS_same;
  config.max_workers = positive("max_workers", FLAGS_max_workers, 1000);
  config.credit = positive("held", FLAGS_held, 1000);
  if (FLAGS_threads < 0) throw Error("--threads=", FLAGS_threads, ": expected 0 or more");
  config.threads = FLAGS_threads > 0 ? positive("threads", FLAGS_threads, 1000)
                                     : std::max(1u, std::thread::hardware_concurrency());
  if (!(FLAGS_worker_timeout >= 0.1 && FLAGS_worker_timeout <= 1e6)) {
    throw Error("--worker_timeout=", FLAGS_worker_timeout, ": expected 0.1 to 1000000");
  }
  config.worker_timeout = FLAGS_worker_timeout;
  config.key_file = FLAGS_key_file;
  config.state_file = FLAGS_state;
  config.has_first_batch = FLAGS_first_batch >= 0;
  config.first_batch = static_cast<uint64_t>(std::max<int64_t>(FLAGS_first_batch, 0));
  if (config.same && (config.has_first_batch || !config.state_file.empty())) {
    throw Error(
        "--same: each worker has a position of its own, expected neither --state nor "
        "--first_batch");
  }
  return config;
}

// What GET /v1/status answers: JSON.
std::string StatusOf(const BatchServer& server, const BatchMaker& maker) {
  google::protobuf::Struct status;
  const auto number = [](google::protobuf::Struct* to, const char* name, uint64_t value) {
    (*to->mutable_fields())[name].set_number_value(static_cast<double>(value));
  };
  (*status.mutable_fields())["service"].set_string_value(FLAGS_name);
  (*status.mutable_fields())["address"].set_string_value(server.address());
  auto* const layers = (*status.mutable_fields())["layers"].mutable_list_value();
  for (const BatchMaker::LayerInfo& layer : maker.layers()) {
    google::protobuf::Struct* const to = layers->add_values()->mutable_struct_value();
    (*to->mutable_fields())["name"].set_string_value(layer.name);
    number(to, "records", layer.records);
    number(to, "batch_size", layer.batch_size);
  }
  const BatchServerCounts counts = server.counts();
  number(&status, "workers", counts.workers);
  number(&status, "waiting_workers", counts.waiting);
  number(&status, "wanted", counts.wanted);
  number(&status, "made", counts.made);
  number(&status, "sent", counts.sent);
  number(&status, "consumed", counts.consumed);
  number(&status, "returned", counts.returned);
  number(&status, "twice", counts.twice);
  number(&status, "slots", counts.used_slots);
  number(&status, "max_memory_bytes", server.memory_bytes());
  return JsonOf(status);
}

// Null: --control does not ask for one.
std::unique_ptr<MetricsService> StartMetrics(const BatchServer& server, const BatchMaker& maker,
                                             MetricsRegistry* registry) {
  if (FLAGS_control.empty()) return nullptr;
  auto service = std::make_unique<MetricsService>(
      MetricsServiceOptions{.address = FLAGS_control,
                            .key_file = FLAGS_key_file,
                            .certificate = FLAGS_control_certificate,
                            .private_key = FLAGS_control_private_key,
                            .metrics = registry,
                            .status = [&] { return StatusOf(server, maker); }});
  LOG(INFO) << "Metrics and status: " << service->url();
  return service;
}

int RunServeData(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  if (FLAGS_model.empty() == FLAGS_source.empty()) {
    throw Error("expected either --model or --source");
  }
  BatchServerConfig config = ConfigOfFlags();
  MetricsRegistry& registry = MetricsRegistry::OfProcess();
  config.metrics = &registry;
  caffe::NetParameter net;
  SourceMap source;
  if (FLAGS_source.empty()) {
    LoadNet(FLAGS_model, &net, &source);
  } else {
    NetOfFlags(&net, &source);
  }
  SignalWatch signals(RunCommand::kStop, RunCommand::kNone);
  BatchMaker maker(net, source, NetStateFromFlags(net), FLAGS_seed);
  const BatchServer server(config, &maker);
  for (const BatchMaker::LayerInfo& layer : maker.layers()) {
    LOG(INFO) << "Layer '" << layer.name << "': " << layer.records << " records, batches of "
              << layer.batch_size;
  }
  const auto metrics = StartMetrics(server, maker, &registry);
  LOG(INFO) << "Uses at most " << server.memory_bytes() / (1 << 20) << " MiB for batches";
  LOG(INFO) << "Serves batch://" << server.address() << "/" << config.name;
  while (!server.has_failed() && signals.Next(200) != RunCommand::kStop) {
  }
  server.RethrowIfFailed();
  const BatchServerCounts counts = server.counts();
  std::printf("made %llu batches, sent %llu, of which workers trained on %llu\n",
              static_cast<unsigned long long>(counts.made),
              static_cast<unsigned long long>(counts.sent),
              static_cast<unsigned long long>(counts.consumed));
  return 0;
}

const RegisterCommand registered_serve_data(
    {"serve_data",
     "",
     "makes the batches of data layers once, for the workers of several processes",
     {"model",
      "phase",
      "level",
      "stage",
      "source",
      "batch_size",
      "transform",
      "listen",
      "name",
      "same",
      "threads",
      "max_workers",
      "held",
      "worker_timeout",
      "state",
      "first_batch",
      "seed",
      "key_file",
      "control",
      "control_certificate",
      "control_private_key",
      "plugins"},
     RunServeData,
     {},
     "millrace serve-data --model=train.prototxt --listen=127.0.0.1:7700 --name=train"});

}  // namespace
}  // namespace millrace
