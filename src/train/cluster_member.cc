// The public class ClusterMember: a weight array of the program as a replica.
#include <algorithm>
#include <utility>

#include "base/range_lock.h"
#include "base/registration.h"
#include "millrace/cluster.h"
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
  return FindNodeConfig(train);
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

  template <typename Change>
  void Update(Change change) {
    runner_->RethrowIfFailed();
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

  const std::span<float> weights_;
  const SteadyClock time_;
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

void ClusterMember::Join(double seconds) { impl_->runner_->Join(seconds); }

void ClusterMember::Update(
    const std::function<void(size_t offset, std::span<float> part)>& update) {
  impl_->Update(update);
}

void ClusterMember::Add(std::span<const float> delta) {
  if (delta.size() != impl_->weights_.size()) {
    throw Error("ClusterMember::Add: ", delta.size(), " values for ", impl_->weights_.size(),
                " weights");
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

void ClusterMember::Finish() { impl_->runner_->Finish(impl_->longest_ns_); }
void ClusterMember::Leave() { impl_->runner_->Leave(); }

}  // namespace millrace
