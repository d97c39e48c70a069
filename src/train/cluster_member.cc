// The public class ClusterMember: a weight array of the program as a replica.
#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "base/range_lock.h"
#include "base/registration.h"
#include "millrace/cluster.h"
#include "solver/solver.h"
#include "train/node_runner.h"
#include "weights/iteration_clock.h"

namespace millrace {
namespace {

// Floats that are locked at a time: about a microsecond of work.
constexpr size_t kBlock = 4096;
constexpr uintptr_t kAlignment = 64;

std::unique_ptr<NodeConfig> NodeConfigOf(const ClusterOptions& options) {
  if (options.topology.empty()) throw Error("ClusterOptions.topology: expected a file name");
  TrainOptions train;
  train.topology = options.topology;
  train.node = options.node;
  train.scales_rate = false;
  return FindHostNodeConfig(train);
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
      : weights_(Checked(weights)), locks_(weights.data()), holder_(&locks_) {
    CheckRegistrations();
    clock_.StartAt(options.iteration);
    runner_ = std::make_unique<NodeRunner>(
        NodeConfigOf(options), ClusterReplica{.weights = weights.data(),
                                              .size = static_cast<int64_t>(weights.size()),
                                              .layout_digest = options.layout,
                                              .start = options.iteration,
                                              .iterations = &clock_,
                                              .replica_device = HostReplica(&locks_),
                                              .registry = options.metrics});
    slot_ = clock_.RegisterSolver();
  }
  ~Impl() { clock_.ReleaseSolver(slot_); }

  void Join(double seconds) {
    if (state_ == State::kEnded) Refuse("Join");
    if (state_ == State::kJoined) return;
    runner_->Join(seconds);
    state_ = State::kJoined;
  }

  // Throws Error unless this node takes part in the run.
  void ExpectJoined(const char* function) const {
    if (state_ != State::kJoined) Refuse(function);
  }
  // The node takes part no longer.
  void End(const char* function) {
    ExpectJoined(function);
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
  void Update(Change change) {
    ExpectJoined("Update");
    try {
      runner_->RethrowIfFailed();
    } catch (const std::exception&) {
      runner_->PublishFailed(std::current_exception());
      throw;
    }
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
    clock_.Claim(INT64_MAX);
    clock_.Done(slot_);
    // From the end of the last update to the end of this one, the program's computation included.
    const int64_t now = time_.NowNs();
    if (last_ns_ >= 0) longest_ns_ = std::max(longest_ns_, now - last_ns_);
    longest_ns_ = std::max(longest_ns_, now - begin_ns);
    last_ns_ = now;
  }

  enum class State { kNew, kJoined, kEnded };

  [[noreturn]] void Refuse(const char* function) const {
    throw Error("ClusterMember::", function, ": ",
                state_ == State::kNew ? "this node has not joined, expected a call of Join before"
                                      : "this node has left the cluster or has failed");
  }

  const std::span<float> weights_;
  const SteadyClock time_;
  State state_ = State::kNew;
  IterationClock clock_;
  RangeLock locks_;
  RangeLock::Shared holder_;
  int slot_ = -1;
  int64_t last_ns_ = -1, longest_ns_ = 0;
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
  const auto bad =
      std::find_if(delta.begin(), delta.end(), [](float value) { return !std::isfinite(value); });
  if (bad != delta.end()) {
    impl_->Fail(NonFiniteLoss("ClusterMember::Add: element ", bad - delta.begin(), " is ", *bad,
                              ", expected a finite number"));
  }
  impl_->Update([&](size_t offset, std::span<float> part) {
    for (size_t i = 0; i < part.size(); ++i) part[i] += delta[offset + i];
  });
}

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

void ClusterMember::Finish() {
  impl_->End("Finish");
  impl_->runner_->Finish(impl_->longest_ns_);
}
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
