#include "train/cluster/connect_ranks.h"

#include <glog/logging.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "base/fnv1a.h"
#include "solver/strategy_plan.h"

namespace millrace::inline train {
namespace {

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Values that all ranks take from rank 0, or must have in common with it.
struct Common {
  uint64_t seed = 0;
  uint64_t digest = 0;  // of solver and nets
};

uint64_t DigestOf(const SolverConfig& config) {
  caffe::SolverParameter param = config.param;
  param.clear_random_seed();
  param.clear_snapshot_prefix();  // of this machine's file system
  return Fnv1a(param.ShortDebugString() + config.train.param.ShortDebugString());
}

void ShareConfig(Processes* processes, SolverConfig* config) {
  const std::unique_ptr<Collective> group = processes->NewGroup();
  Common common{config->seed, DigestOf(*config)};
  const uint64_t own = common.digest;
  group->Broadcast(std::as_writable_bytes(std::span(&common, 1)));
  if (common.digest != own) {
    throw Error("this process on ", HostName(),
                " has another solver file, or another net, than rank 0, expected equal ones");
  }
  config->seed = common.seed;
}

void LeaveToFirstRank(SolverConfig* config) {
  caffe::SolverParameter& param = config->param;
  param.set_display(0);
  // With a merge rule, every rank saves the state of its own solvers.
  if (!config->strategy->synchronous->merges_weights) {
    param.set_snapshot(0);
    param.set_snapshot_after_train(false);
  }
  param.set_test_interval(0);
  param.clear_test_iter();
  param.clear_stop_condition();
  param.clear_weights();
  config->tests.clear();
}

}  // namespace

void ConnectRanks(const TrainOptions& options, bool first_rank_saves, SolverConfig* config,
                  std::unique_ptr<Processes>* processes) {
  const auto launch = FindLaunch([](const char* variable) { return std::getenv(variable); });
  if (!launch || options.in_cluster() || !options.shm.empty()) return;
  *processes = ConnectProcesses(*launch, config->strategy->synchronous->peer_timeout);
  ShareConfig(processes->get(), config);
  const int rank = (*processes)->rank();
  LOG(INFO) << "Rank " << rank << " of " << (*processes)->size() << ", process " << getpid()
            << " on " << HostName();
  if (first_rank_saves && rank != 0) LeaveToFirstRank(config);
}

void RefuseSeparateRanks(const TrainOptions& options, const SolverConfig& config) {
  const auto launch = FindLaunch([](const char* variable) { return std::getenv(variable); });
  if (!launch || options.in_cluster() || !options.shm.empty()) return;
  throw Error(launch->launcher, " has started ", launch->size, " processes, but strategy ",
              config.param.strategy().type(),
              " does not combine them: expected strategy { type: \"allreduce\" } or --topology");
}

void AbortIfConnected(Processes* processes) {
  if (processes == nullptr) return;
  try {
    throw;
  } catch (const std::exception& error) {
    // The program's own handler is not reached.
    std::fprintf(stderr, "millrace: rank %d: %s\n", processes->rank(),
                 OneLine(error.what()).c_str());
  }
  processes->Abort();
}

}  // namespace millrace::inline train
