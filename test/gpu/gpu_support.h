// Solvers that add whole numbers to replicas, on the host and on devices.
#ifndef MILLRACE_TEST_GPU_GPU_SUPPORT_H_
#define MILLRACE_TEST_GPU_GPU_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "solver/update_rule.h"
#include "strategy/device_strategy.h"
#include "strategy/hogwild.h"
#include "test/support/chosen_device.h"
#include "test/support/fake_device.h"
#include "test/support/support.h"
#include "train/device_links.h"
#include "weights/copy_weights.h"

namespace millrace::test {

inline ParamLayout FlatLayout(int64_t size) {
  ParamLayout layout;
  layout.Add("w", {size});
  return layout;
}

// Waits until `holds` or an error. Returns whether it held in time.
template <typename Holds>
bool Await(Holds holds, double seconds = 300) {
  const SteadyClock clock;
  const double end = clock.NowSeconds() + seconds * Patience();
  while (!holds()) {
    if (clock.NowSeconds() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Adds `step` to every weight, as many times as Run is asked for, by the program's own update: SGD
// without momentum, on a constant gradient. As with a program's solver, whose passes wait for batches,
// its queue has only a few iterations.
class AddingSolver {
 public:
  AddingSolver(std::unique_ptr<Strategy> strategy, int64_t size, float step)
      : step_(step), strategy_(std::move(strategy)) {
    Device& device = strategy_->device();
    queue_ = device.MakeQueue(QueuePriority::kNormal);
    gradients_ = Buffer(device.memory(), size * sizeof(float));
    const std::vector<float> values(size, -1);
    device.memory().CopyFromHost(gradients_.get(), values.data(), gradients_.bytes());
    caffe::SolverParameter param;
    param.set_type("SGD");
    rule_ = UpdateRuleRegistry::Get().Create(param, {{"w", {size}, 0, size, 1, 1}}, size, *queue_);
    strategy_->Prepare(rule_.get());
  }

  // On the thread that uses the solver.
  void Iterate(int iterations) {
    for (int i = 0; i < iterations && strategy_->Claim(INT64_MAX); ++i) {
      strategy_->Update(step_, gradients_.get<float>(), rule_.get());
      strategy_->Complete();
      Event& oldest = enqueued_[updates_++ % enqueued_.size()];
      oldest.Synchronize();
      oldest = queue_->Record();
    }
  }
  void Finish() { queue_->Synchronize(); }

 private:
  const float step_;
  const std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Queue> queue_;
  Buffer gradients_;
  std::unique_ptr<UpdateRule> rule_;
  std::array<Event, 4> enqueued_;  // the ends of the last updates
  size_t updates_ = 0;
};

// A host's replica with links to devices.
class LinkedReplicas {
 public:
  LinkedReplicas(int64_t size, const std::vector<Device*>& devices, float initial = 0,
                 double max_bytes_per_second = 0)
      : host_(WeightBuffer::CreatePrivate(FlatLayout(size))), registry_(PartOrNew(nullptr)) {
    std::fill_n(host_->data(), host_->size(), initial);
    DeviceLinksConfig config;
    for (Device* device : devices) {
      weights_.push_back(std::make_unique<DeviceWeights>(device, host_->size()));
      config.devices.push_back(weights_.back().get());
    }
    config.host = host_.get();
    config.clock = &clock_;
    config.sink = &errors_;
    config.max_bytes_per_second = max_bytes_per_second;
    // Metrics have the name of the device, so two links of one device cannot share a registry.
    if (std::set(devices.begin(), devices.end()).size() == devices.size()) {
      config.registry = registry_;
    }
    links_ = std::make_unique<DeviceLinks>(config);
  }

  void Join() {
    ASSERT_TRUE(Await([&] { return links_->in_sync() || errors_.failed(); }));
    errors_.RethrowIfFailed();
  }
  void Leave() {
    links_->Leave();
    EXPECT_TRUE(Await([&] { return links_->left() || errors_.failed(); }));
    links_->Stop();
    errors_.RethrowIfFailed();
  }

  std::unique_ptr<AddingSolver> HostSolver(float step) {
    return std::make_unique<AddingSolver>(std::make_unique<HogwildStrategy>(host_.get()),
                                          host_->size(), step);
  }
  std::unique_ptr<AddingSolver> DeviceSolver(size_t device, float step) {
    return std::make_unique<AddingSolver>(
        std::make_unique<DeviceStrategy>(weights_[device].get(), &host_->clock()), host_->size(),
        step);
  }

  WeightBuffer& host() { return *host_; }
  // Whether all weights of the replica have this value. Links may change them meanwhile.
  bool HostHolds(float value) const {
    std::vector<float> values(host_->size());
    HogwildReadWeights(host_->size(), host_->data(), values.data());
    return AllAre(values, value);
  }
  bool DeviceHolds(size_t device, float value) const {
    std::vector<float> values(host_->size());
    weights_[device]->CopyToHost(values.data());
    return AllAre(values, value);
  }
  DeviceLinks& links() { return *links_; }
  const DeviceLink& link(size_t device) const { return *links_->links()[device]; }
  ErrorSink& errors() { return errors_; }
  MetricsRegistry& registry() { return *registry_; }

 private:
  static bool AllAre(const std::vector<float>& weights, float value) {
    return std::all_of(weights.begin(), weights.end(), [=](float each) { return each == value; });
  }

  const SteadyClock clock_;
  ErrorSink errors_{[] {}};
  const std::unique_ptr<WeightBuffer> host_;
  const std::shared_ptr<MetricsRegistry> registry_;
  std::vector<std::unique_ptr<DeviceWeights>> weights_;
  std::unique_ptr<DeviceLinks> links_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_GPU_GPU_SUPPORT_H_
