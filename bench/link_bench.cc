// The link between a solver's replica on a GPU and the host's: bytes a second in each direction,
// and what it costs the solver. The solver makes updates of momentum SGD on a constant gradient, as
// fast as it can and at the pace of a net: alone, then with the link. The host's replica changes
// meanwhile, so that both directions are in use.
//
//   build/bench/link_bench --seconds=8            GPU 0
//   build/bench/link_bench --device=cpu --mfloats=4    a try without a GPU: the host plays both
//   parts
#include <gflags/gflags.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "bench/measure.h"
#include "solver/update_rule.h"
#include "strategy/device_strategy.h"
#include "strategy/hogwild.h"
#include "train/device_links.h"

DEFINE_string(device, "cuda", "cuda, GPU 0; or cpu");
DEFINE_double(seconds, 8, "of each measurement");
DEFINE_int32(mfloats, 61, "millions of weights; CaffeNet has 61");

namespace millrace {
namespace {

// Momentum SGD on a device or the host.
class Solver {
 public:
  Solver(std::unique_ptr<Strategy> strategy, int64_t size)
      : strategy_(std::move(strategy)),
        queue_(strategy_->device().MakeQueue(QueuePriority::kNormal)),
        gradients_(strategy_->device().memory(), size * sizeof(float)) {
    strategy_->device().memory().Fill(gradients_.get(), 0, gradients_.bytes());
    caffe::SolverParameter param;
    param.set_type("SGD");
    param.set_momentum(0.9f);
    rule_ = UpdateRuleRegistry::Get().Create(param, {{"w", {size}, 0, size, 1, 1}}, size, *queue_);
    strategy_->Prepare(rule_.get());
  }
  // Updates a second, one every `every` seconds at most.
  double Rate(double seconds, double every) {
    const double begin = bench::Seconds();
    int64_t done = 0;
    for (double now = begin; now < begin + seconds; now = bench::Seconds()) {
      strategy_->Claim(INT64_MAX);
      strategy_->Update(1e-3f, gradients_.get<float>(), rule_.get());
      strategy_->Complete();
      queue_->Synchronize();
      ++done;
      const double rest = begin + static_cast<double>(done) * every - bench::Seconds();
      if (rest > 0) std::this_thread::sleep_for(std::chrono::duration<double>(rest));
    }
    return static_cast<double>(done) / (bench::Seconds() - begin);
  }

 private:
  const std::unique_ptr<Strategy> strategy_;
  const std::unique_ptr<Queue> queue_;
  const Buffer gradients_;
  std::unique_ptr<UpdateRule> rule_;
};

double FramesMib(const NetSegment& end) {
  return static_cast<double>(end.metrics().wire_bytes()) / (1 << 20);
}

void Measure(Device& device) {
  const int64_t size = int64_t{FLAGS_mfloats} * 1'000'000;
  const SteadyClock clock;
  ParamLayout layout;
  layout.Add("w", {size});
  const auto host = WeightBuffer::CreatePrivate(layout);
  DeviceWeights weights(&device, size);
  const auto make = [&] {
    return std::make_unique<Solver>(std::make_unique<DeviceStrategy>(&weights, &host->clock()),
                                    size);
  };
  const auto solver = make();
  std::printf("%d million weights, %s\n", FLAGS_mfloats, device.name().c_str());
  const std::vector<double> paces = {0, 0.005, 0.05};
  std::vector<double> alone;
  for (const double pace : paces) alone.push_back(solver->Rate(FLAGS_seconds / 2, pace));
  ErrorSink errors([] {});
  DeviceLinks links({.host = host.get(),
                     .devices = {&weights},
                     .clock = &clock,
                     .sink = &errors,
                     .registry = PartOrNew(nullptr)});
  while (!links.in_sync() && !errors.failed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // A solver on the host, ten updates a second.
  std::atomic<bool> stop{false};
  std::thread other([&] {
    Solver on_host(std::make_unique<HogwildStrategy>(host.get()), size);
    while (!stop) on_host.Rate(0.2, 0.1);
  });
  std::printf("%-28s %14s %14s %10s %12s %12s\n", "updates", "alone, 1/s", "linked, 1/s", "ratio",
              "to host", "to device");
  for (size_t i = 0; i < paces.size() && !errors.failed(); ++i) {
    const DeviceLink& link = *links.links()[0];
    const double up = FramesMib(link.device_end()), down = FramesMib(link.host_end());
    const double begin = bench::Seconds(), rate = solver->Rate(FLAGS_seconds, paces[i]);
    const double spent = bench::Seconds() - begin;
    char name[40] = "as fast as it can";
    if (paces[i] > 0) std::snprintf(name, sizeof(name), "one every %.0f ms", 1e3 * paces[i]);
    std::printf("%-28s %14.1f %14.1f %10.3f %7.0f MiB/s %7.0f MiB/s\n", name, alone[i], rate,
                rate / alone[i], (FramesMib(link.device_end()) - up) / spent,
                (FramesMib(link.host_end()) - down) / spent);
    std::fflush(stdout);
  }
  stop = true;
  other.join();
  links.Stop();
  errors.RethrowIfFailed();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  try {
    if (FLAGS_device != "cuda" && FLAGS_device != "cpu") {
      throw millrace::Error("--device=", FLAGS_device, ": expected cuda or cpu");
    }
    const auto type =
        FLAGS_device == "cpu" ? millrace::DeviceType::kCpu : millrace::DeviceType::kCuda;
    millrace::Measure(millrace::DeviceRegistry::Get().Find(type, 0));
  } catch (const millrace::Error& error) {
    std::fprintf(stderr, "link_bench: %s\n", error.what());
    return 1;
  }
}
