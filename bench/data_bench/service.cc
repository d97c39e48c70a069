#include "bench/data_bench/service.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "batches/batch_server.h"
#include "bench/measure.h"
#include "control/http_client.h"
#include "control/http_server.h"
#include "data/data_service.h"
#include "millrace/layer.h"
#include "test/netns/network.h"

namespace millrace::bench {
namespace {

using test::Network;

// A service of one layer, and a network if its workers are on another machine.
class Service {
 public:
  Service(const caffe::LayerParameter& layer, Path path) {
    caffe::NetParameter net;
    *net.add_layer() = layer;
    caffe::NetState state;
    state.set_phase(caffe::TRAIN);
    maker_ = std::make_unique<BatchMaker>(net, SourceMap("bench"), state, 1);
    BatchServerConfig config;
    config.listen = "127.0.0.1:0";
    config.threads = std::max(1u, std::thread::hardware_concurrency());
    const auto start = [&] { server_ = std::make_unique<BatchServer>(config, maker_.get()); };
    if (path != Path::kLink) {
      start();
      return;
    }
    network_ = std::make_unique<Network>(1500);
    for (const int machine : {0, 1}) {
      network_->Run(machine, {"tc", "qdisc", "add", "dev", Network::DeviceOf(machine), "root",
                              "tbf", "rate", "1gbit", "burst", "128kb", "latency", "20ms"});
    }
    config.listen = Network::AddressOf(0) + ":7700";
    config.key_file = key_.path();
    network_->Inside(0, start);
  }

  // A layer that takes the service's batches.
  caffe::LayerParameter Layer(const caffe::LayerParameter& served, Path path) const {
    caffe::LayerParameter layer = served;
    layer.clear_data_param();
    layer.clear_transform_param();
    std::string source = "batch://" + server_->address() + "/train?wait=0";
    if (path != Path::kMemory) source += "&memory=off";
    if (path == Path::kLink) source += "&key_file=" + key_.path();
    layer.mutable_data_param()->add_source(source);
    return layer;
  }
  const BatchMaker& maker() const { return *maker_; }
  // Runs `body` where the workers are.
  void AtWorkers(const std::function<void()>& body) const {
    if (network_) {
      network_->Inside(1, body);
    } else {
      body();
    }
  }

 private:
  // A key file that ends with this object.
  class KeyFile {
   public:
    KeyFile() : path_("/tmp/data-bench-key-XXXXXX") {
      const FileDescriptor file(mkstemp(path_.data()));
      const std::string key(64, '5');
      if (file.get() < 0 || write(file.get(), key.data(), key.size()) < 0) throw Error(path_);
    }
    ~KeyFile() { unlink(path_.c_str()); }
    const std::string& path() const { return path_; }

   private:
    std::string path_;
  };

  const KeyFile key_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<BatchMaker> maker_;
  std::unique_ptr<BatchServer> server_;
};

// Returns the processor time of all threads of the process.
double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

Rate BatchRate(const caffe::LayerParameter& param, int solvers, double seconds) {
  DataService service{DataOptions()};
  std::vector<Rate> rates(static_cast<size_t>(solvers));
  std::vector<std::jthread> threads;
  for (int i = 0; i < solvers; ++i) {
    threads.emplace_back([&, i] {
      LayerContext context;
      context.data = &service;
      context.data_consumer = i;
      context.data_scope = "train";
      const auto layer = LayerRegistry::Get().Create(param, context);
      Blob data, label;
      const Blobs tops = {&data, &label};
      layer->SetUp({}, tops);
      layer->Reshape({}, tops);
      for (int pass = 0; pass < 10; ++pass) layer->Forward({}, tops);
      const double begin = Seconds(), processor_begin = ProcessorSeconds();
      double taken = 0, passes = 0;
      for (; (taken = Seconds() - begin) < seconds; ++passes) {
        layer->Forward({}, tops);
        layer->EndIteration();
      }
      const double images = passes * static_cast<double>(layer->batch_size());
      rates[static_cast<size_t>(i)] = {images / taken,
                                       (ProcessorSeconds() - processor_begin) / images * 1e6};
    });
  }
  threads.clear();  // joins
  Rate sum;
  for (const Rate& each : rates) {
    sum.images += each.images;
    sum.processor_us += each.processor_us / (solvers * solvers);
  }
  return sum;
}

Rate ServedRate(const caffe::LayerParameter& param, Path path, double seconds) {
  const Service service(param, path);
  Rate rate;
  service.AtWorkers([&] { rate = BatchRate(service.Layer(param, path), 1, seconds); });
  return rate;
}

std::string WhyNoLink() { return Network::WhyNot(); }

uint64_t BatchBytes(const caffe::LayerParameter& param) {
  return Service(param, Path::kMemory).maker().bytes();
}

double HttpRate(uint64_t bytes, double seconds) {
  HttpServerConfig config;
  config.address = *ParseHttpAddress("127.0.0.1:0");
  const std::string body(bytes, 'x');
  HttpServer server(
      config, [&](const HttpRequest&, const HttpDone& done) { done({.body = body}); },
      [] { return std::pair(RunStatus(), std::string("{}")); });
  uint64_t bodies = 0;
  const double begin = Seconds();
  double taken = 0;
  for (; (taken = Seconds() - begin) < seconds; ++bodies) {
    if (SendHttp({}, server.address(), {}).body.size() != bytes) throw Error("HTTP: a short body");
  }
  return static_cast<double>(bodies) / taken;
}

}  // namespace millrace::bench
