// The public class ClusterMember: a weight array of the program as a replica.
#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "base/registration.h"
#include "base/threads/range_lock.h"
#include "base/threads/thread_load.h"
#include "millrace/cluster.h"
#include "solver/rate_scale.h"
#include "solver/solver.h"
#include "train/cluster/node_runner.h"
#include "weights/copy_weights.h"
#include "weights/iteration_clock.h"

namespace millrace {
namespace {

// Floats that are locked at a time: about a microsecond of work.
constexpr size_t kBlock = 4096;
constexpr uintptr_t kAlignment = 64;
// For so long iterations of a node alone may wait for a Merge.
constexpr int64_t kMaxKeptNs = 100'000'000;
constexpr int64_t kMaxIterationsOfMerge = 1'000'000;

std::unique_ptr<NodeConfig> NodeConfigOf(const ClusterOptions& options) {
  CheckRegistrations();
  if (options.topology.empty() && options.rendezvous.empty()) {
    throw Error("ClusterOptions.topology: expected a file name");
  }
  TrainOptions train;
  train.rendezvous.url = options.rendezvous;
  train.rendezvous.nodes = options.nodes;
  train.topology = options.topology;
  train.node = options.node;
  train.scales_rate = options.scaling != "none";
  return FindHostNodeConfig(train);
}

RateGrowth GrowthOfScaling(const std::string& scaling) {
  if (scaling == "none" || scaling == "linear") return RateGrowth::kLinear;
  if (scaling == "root") return RateGrowth::kRoot;
  throw Error("ClusterOptions.scaling: \"", scaling,
              "\" given, expected \"none\", \"linear\" or \"root\"");
}

int64_t CheckedWarmup(int64_t warmup) {
  if (warmup < 0) throw Error("ClusterOptions.warmup: ", warmup, " given, expected at least 0");
  return warmup;
}

std::span<float> Checked(std::span<float> weights) {
  if (weights.empty()) throw Error("ClusterMember: expected at least one weight");
  if (reinterpret_cast<uintptr_t>(weights.data()) % kAlignment != 0) {
    throw Error("ClusterMember: expected weights at an address that is a multiple of ", kAlignment);
  }
  return weights;
}

}  // namespace

class ClusterMember::Impl {
 public:
  Impl(const ClusterOptions& options, std::span<float> weights)
      : weights_(Checked(weights)),
        growth_(GrowthOfScaling(options.scaling)),
        rate_scale_(CheckedWarmup(options.warmup)),
        node_config_(NodeConfigOf(options)),
        poll_(options.poll),
        locks_(weights.data()),
        holder_(&locks_) {
    clock_.StartAt(options.iteration);
    runner_ = std::make_unique<NodeRunner>(
        *node_config_, ClusterReplica{.weights = weights.data(),
                                      .size = static_cast<int64_t>(weights.size()),
                                      .layout_digest = options.layout,
                                      .start = options.iteration,
                                      .iterations = &clock_,
                                      .replica_device = HostReplica(&locks_),
                                      .solvers = &load_,
                                      .registry = options.metrics});
    slot_ = clock_.RegisterSolver();
  }
  ~Impl() { clock_.ReleaseSolver(slot_); }

  void Join(double seconds) {
    if (state_ == State::kJoined) return;
    if (state_ != State::kNew) Refuse("Join");
    runner_->Join(seconds, poll_);
    state_ = State::kJoined;
    LogScaling(*node_config_, growth_, 1, rate_scale_);
  }

  float RateFactorNow() {
    ExpectJoined("rate_factor");
    rate_scale_.Set(RateFactor(runner_->cluster(), node_config_->plan, growth_, 1));
    return rate_scale_.Factor(clock_.global());
  }

  // Throws Error unless this node takes part in the run.
  void ExpectJoined(const char* function) const {
    if (state_ != State::kJoined) Refuse(function);
  }
  // The node has left the run. `function` may follow a Finish that `poll` has ended.
  void End(const char* function) {
    if (state_ != State::kEnding) ExpectJoined(function);
    state_ = State::kEnded;
  }

  void Finish() {
    if (state_ != State::kEnding) ExpectJoined("Finish");
    state_ = State::kEnding;
    bool polled_out = false;
    const auto poll = [&] {
      if (!poll_) return;
      polled_out = true;
      poll_();
      polled_out = false;
    };
    try {
      runner_->Finish(max_iteration_ns_, poll);
    } catch (...) {
      if (!polled_out) state_ = State::kEnded;
      throw;
    }
    state_ = State::kEnded;
  }

  // Publishes an error that ends this node, and throws it.
  template <typename Failure>
  [[noreturn]] void Fail(const Failure& failure) {
    state_ = State::kEnded;
    const std::exception_ptr error = std::make_exception_ptr(failure);
    runner_->PublishFailed(error);
    std::rethrow_exception(error);
  }

  template <typename Change>
  void Update(Change change, int64_t iterations = 1) {
    ExpectRunning("Update");
    CountThread();
    const int64_t begin_ns = time_.NowNs();
    for (size_t offset = 0; offset < weights_.size(); offset += kBlock) {
      const std::span<float> part =
          weights_.subspan(offset, std::min(kBlock, weights_.size() - offset));
      struct Locked {
        Locked(RangeLock::Shared* holder, std::span<float> part) : holder(*holder) {
          holder->Lock(part.data(), static_cast<int64_t>(part.size()));
        }
        ~Locked() { holder.Unlock(); }
        RangeLock::Shared& holder;
      } locked(&holder_, part);
      change(offset, part);
    }
    Count(iterations);
    updated_ns_ = time_.NowNs();
    max_iteration_ns_ = std::max(max_iteration_ns_, updated_ns_ - begin_ns);
  }

  bool CountAlone() {
    ExpectRunning("CountAlone");
    const bool has_waited = time_.NowNs() - updated_ns_ > kMaxKeptNs;
    if (has_waited || !runner_->cluster().alone()) return false;
    CountThread();
    Count(1);
    return true;
  }

  void Count(int64_t iterations) {
    for (int64_t i = 0; i < iterations; ++i) {
      clock_.Claim(INT64_MAX);
      clock_.Done(slot_);
    }
    // From the end of the last update to the end of this one, the program's computation included.
    const int64_t now = time_.NowNs();
    if (last_ns_ >= 0) max_iteration_ns_ = std::max(max_iteration_ns_, now - last_ns_);
    last_ns_ = now;
  }

  // Throws the error of a segment, which ends this node.
  void ExpectRunning(const char* function) {
    ExpectJoined(function);
    try {
      runner_->RethrowIfFailed();
    } catch (const std::exception&) {
      runner_->PublishFailed(std::current_exception());
      throw;
    }
  }

  // Publishes an update that is not finite as an error of this node, and throws it. `delta` gives
  // the element of an index.
  template <typename Delta>
  void ExpectFinite(const char* function, Delta delta) {
    constexpr uint32_t kExponent = 0x7f800000;
    for (size_t begin = 0; begin < weights_.size(); begin += kBlock) {
      const size_t end = std::min(weights_.size(), begin + kBlock);
      uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
      for (size_t i = begin; i < end; ++i) {
        bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(delta(i)) & kExponent) == kExponent);
      }
      for (size_t i = begin; bad != 0 && i < end; ++i) {
        if (std::isfinite(delta(i))) continue;
        Fail(NonFiniteLoss("ClusterMember::", function, ": element ", i, " is ", delta(i),
                           ", expected a finite number"));
      }
    }
  }

  // Segments leave the processor to the thread that trains (topology.proto, pace).
  void CountThread() {
    if (counted_ && trainer_ == std::this_thread::get_id()) return;
    trainer_ = std::this_thread::get_id();
    counted_.reset();
    counted_.emplace(&load_);
  }

  enum class State { kNew, kJoined, kEnding, kEnded };

  [[noreturn]] void Refuse(const char* function) const {
    throw Error("ClusterMember::", function, ": ",
                state_ == State::kNew ? "this node has not joined, expected a call of Join before"
                : state_ == State::kEnding
                    ? "this node ends its run, expected Finish, Leave or Fail"
                    : "this node has left the cluster or has failed");
  }

  const std::span<float> weights_;
  const RateGrowth growth_;
  RateScale rate_scale_;
  const std::unique_ptr<NodeConfig> node_config_;
  const std::function<void()> poll_;
  const SteadyClock time_;
  State state_ = State::kNew;
  IterationClock clock_;
  RangeLock locks_;
  RangeLock::Shared holder_;
  int slot_ = -1;
  ThreadLoad load_;
  std::thread::id trainer_;                    // last caller of Update
  std::optional<ThreadLoad::Member> counted_;  // that thread
  int64_t last_ns_ = -1, max_iteration_ns_ = 0;
  int64_t updated_ns_ = -kMaxKeptNs;  // the end of the last Update
  std::unique_ptr<NodeRunner> runner_;
};

ClusterMember::ClusterMember(const ClusterOptions& options, std::span<float> weights)
    : impl_(std::make_unique<Impl>(options, weights)) {}
ClusterMember::~ClusterMember() = default;

void ClusterMember::Join(double seconds) { impl_->Join(seconds); }

void ClusterMember::Update(
    const std::function<void(size_t offset, std::span<float> part)>& update) {
  impl_->Update(update);
}

void ClusterMember::Add(std::span<const float> delta) {
  if (delta.size() != impl_->weights_.size()) {
    throw Error("ClusterMember::Add: ", delta.size(), " values for ", impl_->weights_.size(),
                " weights");
  }
  impl_->ExpectJoined("Add");
  impl_->ExpectFinite("Add", [&](size_t i) { return delta[i]; });
  impl_->Update([&](size_t offset, std::span<float> part) {
    for (size_t i = 0; i < part.size(); ++i) part[i] += delta[offset + i];
  });
}

void ClusterMember::Merge(std::span<float> own, std::span<float> base, int64_t iterations) {
  if (own.size() != impl_->weights_.size() || base.size() != own.size()) {
    throw Error("ClusterMember::Merge: ", own.size(), " and ", base.size(), " values for ",
                impl_->weights_.size(), " weights");
  }
  if (iterations < 0 || iterations > kMaxIterationsOfMerge) {
    throw Error("ClusterMember::Merge: ", iterations, " iterations, expected 0 to ",
                kMaxIterationsOfMerge);
  }
  impl_->ExpectJoined("Merge");
  impl_->ExpectFinite("Merge", [&](size_t i) { return own[i] - base[i]; });
  const auto merge = [&](size_t offset, std::span<float> part) {
    MergeCopy(static_cast<int64_t>(part.size()), part.data(), own.data() + offset,
              base.data() + offset);
  };
  impl_->Update(merge, iterations);
}

bool ClusterMember::CountAlone() { return impl_->CountAlone(); }

float ClusterMember::rate_factor() const { return impl_->RateFactorNow(); }

int64_t ClusterMember::iterations() const { return impl_->clock_.global(); }
int ClusterMember::nodes() const { return static_cast<int>(impl_->runner_->cluster().members()); }
bool ClusterMember::is_leader() const { return impl_->runner_->cluster().is_leader(); }

void ClusterMember::ReadMerged(std::span<float> to) {
  if (to.size() != impl_->weights_.size()) {
    throw Error("ClusterMember::ReadMerged: room for ", to.size(), " of ", impl_->weights_.size(),
                " weights");
  }
  std::copy(impl_->weights_.begin(), impl_->weights_.end(), to.begin());
  impl_->runner_->cluster().ReadMerged(to.data(), [this] { return impl_->runner_->failed(); });
  impl_->runner_->RethrowIfFailed();
}

void ClusterMember::Finish() { impl_->Finish(); }
void ClusterMember::Leave() {
  impl_->End("Leave");
  impl_->runner_->Leave();
}
void ClusterMember::Fail(const std::string& error, bool not_finite) {
  impl_->End("Fail");
  impl_->runner_->PublishFailed(not_finite ? std::make_exception_ptr(NonFiniteLoss(error))
                                           : std::make_exception_ptr(Error(error)));
}

}  // namespace millrace
