// Chaos runs: trains clusters in network namespaces, injects every kind of fault at random moments,
// alone and overlapping, and checks the final state.
//
//   MINUTES=30   approximate duration of all runs together
//   SEED=n       repeats the faults of that seed; default: a new seed each time
//   ONLY=NAME    one of the runs, by its name in the table kModes
//   EXCEPT="..." kinds of faults to leave out, by their names in the last table
//   PEER=PYTHON  also trains by PyTorch's DistributedDataParallel with that interpreter, under the
//                faults of the run udp
//
// Needs root, and the program and the library that `make chaos` builds.
#include <glog/logging.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/rng.h"
#include "base/text/names.h"
#include "test/chaos/program/peer.h"
#include "test/chaos/program/training.h"

namespace millrace::test {
namespace {

struct Mode {
  const char* name;
  const char* transport;
  const char* segment;  // further fields of the segment
};
constexpr std::array<Mode, 5> kModes = {
    {{"udp", "udp", ""},
     {"packet", "packet", ""},
     {"udp-key", "udp", "key_file: \"key\""},
     {"packet-key", "packet", "key_file: \"key\""},
     // Positions as changes, which all members have to receive one after the other.
     {"udp-topk", "udp",
      "codec: \"topk\" share: 0.1 position_codec: \"topk\" position_share: 0.1"}}};

// Chance is 0.1. Accuracy may fall below that of the undisturbed run by the cost of the last
// faults.
constexpr double kMinAccuracy = 0.65, kLessThanUndisturbed = 0.06;
constexpr int64_t kUndisturbedIterations = 1500;
constexpr double kMinMinutes = 1;
// Part of a run's time without faults: startup and shutdown.
constexpr double kForEndSeconds = 12;
// Seconds at full speed after the faults: a tenth of the run, within these bounds. All but the last
// kAfterOneView seconds are for nodes to join one view, including a node that was just killed.
constexpr double kMinAfterFaults = 16, kMaxAfterFaults = 40, kAfterOneView = 6;
// Part of the total time for the undisturbed run.
constexpr double kUndisturbedSeconds = 10;

volatile std::sig_atomic_t interrupted = 0;

std::string Setting(const char* name, const std::string& default_value) {
  const char* const text = std::getenv(name);
  return text && *text ? text : default_value;
}

double MinutesSetting() {
  const std::string text = Setting("MINUTES", "30");
  char* end = nullptr;
  const double minutes = std::strtod(text.c_str(), &end);
  if (*end != 0 || !(minutes >= kMinMinutes)) {
    throw Error("MINUTES=", text, ": expected a number of ", kMinMinutes, " or more");
  }
  return minutes;
}

uint64_t SeedSetting() {
  const std::string text = Setting("SEED", "");
  if (text.empty()) return std::random_device()();
  char* end = nullptr;
  const uint64_t seed = std::strtoull(text.c_str(), &end, 10);
  if (*end != 0 || text[0] == '-') throw Error("SEED=", text, ": expected a number");
  return seed;
}

uint32_t ExceptSetting() {
  std::istringstream names(Setting("EXCEPT", ""));
  uint32_t without = 0;
  for (std::string name; names >> name;) {
    int kind = 0;
    while (kind < kFaultKinds && name != NameOf(static_cast<FaultKind>(kind))) ++kind;
    if (kind == kFaultKinds) throw Error("EXCEPT: there is no fault \"", name, "\"");
    without |= 1u << kind;
  }
  return without;
}

std::string WhyNot() {
  if (geteuid() != 0) return "needs root, for network namespaces";
  const std::string reason = Network::WhyNoBridge();
  if (!reason.empty()) return reason;
  if (!FileExists("data/fashion_mnist/fashion_mnist_train_lmdb")) {
    return "no data/fashion_mnist (examples/fashion_mnist/get_data)";
  }
  return "";
}

class Chaos {
 public:
  Chaos()
      : minutes_(MinutesSetting()),
        seed_(SeedSetting()),
        only_(Setting("ONLY", "")),
        without_(ExceptSetting()),
        peer_(Setting("PEER", "")),
        build_(Setting("BUILD", "build")),
        folder_(StrCat(build_, "/chaos/", seed_)) {
    std::vector<std::string> names;
    for (const Mode& mode : kModes) names.push_back(mode.name);
    if (!only_.empty() && std::ranges::find(names, only_) == names.end()) {
      throw Error("ONLY=", only_, ": expected one of ", Joined(names));
    }
    // Only this process and its children see file systems that are mounted here.
    if (unshare(CLONE_NEWNS) == 0 &&
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
      MakeDirectories(folder_ + "/disks");
      snapshots_ = folder_ + "/disks";
    }
    // The network must not be the bottleneck; the nodes get their usual priority back.
    setpriority(PRIO_PROCESS, 0, -11);
  }

  bool Run() {
    std::cout << "chaos: seed " << seed_ << ", " << minutes_ << " minutes; logs in " << folder_
              << std::endl;
    TrainingOptions calm = Options("undisturbed", kModes[0], 3, seed_);
    calm.max_iter = kUndisturbedIterations;
    calm.snapshot_interval = kUndisturbedIterations / 4;
    calm.least_accuracy = kMinAccuracy;
    const TrainingResult undisturbed = Train("undisturbed", calm);
    if (!undisturbed.failures.empty() || interrupted) return false;
    rate_ = undisturbed.rate;
    least_accuracy_ = std::max(kMinAccuracy, undisturbed.accuracy - kLessThanUndisturbed);
    const size_t runs = only_.empty() ? kModes.size() : 1;
    int failed = 0, planned = 0;
    for (size_t i = 0; i < kModes.size() && !interrupted; ++i) {
      if (only_.empty() || only_ == kModes[i].name) failed += !RunOne(i, planned);
      planned += static_cast<int>(MakePlan(PlanOf(i, planned)).size());
    }
    PrintKinds();
    if (!peer_.empty() && !interrupted) ComparePeer();
    const int left = ProcessesLeft();
    if (left > 0) std::cout << "FAILED: " << left << " processes are left behind" << std::endl;
    const bool good = failed == 0 && left == 0 && !interrupted;
    std::cout << "chaos: " << runs << " runs, " << failed << " failed";
    if (!good) std::cout << "; again: make chaos SEED=" << seed_ << " MINUTES=" << minutes_;
    if (!good && !only_.empty()) std::cout << " ONLY=" << only_;
    std::cout << std::endl;
    return good;
  }

 private:
  TrainingOptions Options(const std::string& name, const Mode& mode, int nodes,
                          uint64_t seed) const {
    TrainingOptions options;
    options.millrace = build_ + "/millrace";
    options.folder = folder_ + "/" + name;
    options.snapshots = snapshots_;
    options.seed = seed;
    options.nodes = nodes;
    options.transport = mode.transport;
    options.segment = mode.segment;
    options.interrupted = &interrupted;
    return options;
  }

  double SecondsOfARun() const {
    return (60 * minutes_ - kUndisturbedSeconds) / static_cast<double>(kModes.size());
  }

  // Depends on the settings only, not on the duration of earlier runs.
  PlanOptions PlanOf(size_t index, int planned_before) const {
    Rng rng(seed_, {0x40de, index});
    PlanOptions plan;
    plan.seed = seed_;
    plan.nodes = 3 + static_cast<int>(rng.Below(3));
    plan.seconds = std::max(0.4 * SecondsOfARun(), SecondsOfARun() - kForEndSeconds);
    plan.first_kind = planned_before;
    plan.without = without_;
    return plan;
  }

  bool RunOne(size_t index, int planned_before) {
    const Mode& mode = kModes[index];
    const PlanOptions plan = PlanOf(index, planned_before);
    TrainingOptions options = Options(mode.name, mode, plan.nodes, seed_);
    options.first_kind = planned_before;
    options.without = without_;
    options.fault_seconds = plan.seconds;
    options.rate = rate_;
    // Iterations that the nodes make while faults slow them down, plus those after the faults.
    const double after = std::clamp(SecondsOfARun() / 10, kMinAfterFaults, kMaxAfterFaults);
    options.max_iter = static_cast<int64_t>(rate_ * (plan.seconds + after));
    options.reserve_seconds = after - kAfterOneView;
    // About one snapshot every three seconds, so that a full disk has an effect.
    options.snapshot_interval = std::max<int64_t>(100, static_cast<int64_t>(3 * rate_));
    options.least_accuracy = least_accuracy_;
    const TrainingResult result = Train(mode.name, options);
    PrintGoodput(mode.name, result.fault_rate, result.rate, result.joins);
    if (result.rate > 0 && result.present > 0) {
      std::printf(
          "%s: %.2f of the nodes were in sync on average: each of them at %.2f of its rate "
          "when whole\n",
          mode.name, result.present, result.fault_rate / result.rate / result.present);
      std::fflush(stdout);
    }
    if (index == 0) udp_share_ = result.rate > 0 ? result.fault_rate / result.rate : 0;
    for (size_t kind = 0; kind < size_t{kFaultKinds}; ++kind) {
      counts_.injected[kind] += result.faults.injected[kind];
      counts_.skipped[kind] += result.faults.skipped[kind];
      if (!result.failures.empty()) failed_with_[kind] += result.faults.injected[kind] > 0;
    }
    return result.failures.empty();
  }

  TrainingResult Train(const std::string& name, const TrainingOptions& options) const {
    std::cout << name << ": " << options.nodes << " nodes, seed " << options.seed << ", "
              << options.max_iter << " iterations, " << options.fault_seconds << " s of faults"
              << std::endl;
    TrainingResult result;
    try {
      result = Training(options).Run();
    } catch (const Error& error) {
      result.failures.push_back(error.what());
    }
    int injected = 0;
    for (const int each : result.faults.injected) injected += each;
    std::printf(
        "%s: %s: %d of %d planned faults, %d processes (%d ended by a full disk), %.0f s, "
        "%lld iterations, accuracy %.4f (least %.4f), %d models on the way, at most %.0f MiB a "
        "process; frames: "
        "%llu lost, %llu corrupted, %llu duplicated, %llu reordered, %llu too long, "
        "%llu cut off, %llu hostile\n",
        name.c_str(), result.failures.empty() ? "passed" : "FAILED", injected, result.planned,
        result.starts, result.full_disk_ends, result.seconds,
        static_cast<long long>(result.iterations), result.accuracy, options.least_accuracy,
        result.models_checked, result.most_rss_mib, static_cast<unsigned long long>(result.lost),
        static_cast<unsigned long long>(result.damaged),
        static_cast<unsigned long long>(result.duplicated),
        static_cast<unsigned long long>(result.reordered),
        static_cast<unsigned long long>(result.too_long),
        static_cast<unsigned long long>(result.cut),
        static_cast<unsigned long long>(result.forged));
    std::fflush(stdout);
    for (const std::string& failure : result.failures) {
      std::cout << "  FAILED: " << failure << std::endl;
    }
    if (!result.failures.empty()) {
      std::cout << "  seed " << seed_ << ", logs in " << options.folder << std::endl;
    }
    return result;
  }

  // What a run gets done under faults, of what it gets done when it is whole.
  static void PrintGoodput(const char* name, double fault_rate, double rate,
                           const std::vector<JoinTime>& joins) {
    std::printf("%s: %.1f iterations/s under faults, %.1f when whole: goodput %.2f", name,
                fault_rate, rate, rate > 0 ? fault_rate / rate : 0);
    PrintJoins("processes were back", joins, [](const JoinTime&) { return true; });
    PrintJoins("met no fault on the way", joins,
               [](const JoinTime& join) { return !join.met_fault; });
    std::printf("\n");
    std::fflush(stdout);
  }

  // The times of those for which `counts` is true.
  static void PrintJoins(const char* what, const std::vector<JoinTime>& joins,
                         bool (*counts)(const JoinTime&)) {
    std::vector<double> seconds;
    for (const JoinTime& join : joins) {
      if (counts(join)) seconds.push_back(join.seconds);
    }
    if (seconds.empty()) return;
    std::sort(seconds.begin(), seconds.end());
    std::printf("; %zu %s: %.1f s (median), %.1f s (most)", seconds.size(), what,
                seconds[seconds.size() / 2], seconds.back());
  }

  // The same plan as the run udp.
  void ComparePeer() const {
    PeerOptions options;
    options.python = peer_;
    options.folder = folder_ + "/peer";
    options.plan = PlanOf(0, 0);
    options.whole_seconds = std::clamp(SecondsOfARun() / 10, kMinAfterFaults, kMaxAfterFaults);
    options.interrupted = &interrupted;
    std::cout << "peer: DistributedDataParallel, " << options.plan.nodes << " nodes, "
              << options.plan.seconds << " s of faults" << std::endl;
    const PeerResult result = TrainPeer(options);
    if (!result.failure.empty()) {
      std::cout << "peer: no comparison: " << result.failure << "; logs in " << options.folder
                << std::endl;
      return;
    }
    PrintGoodput("peer", result.fault_rate, result.rate, result.joins);
    const double share = result.rate > 0 ? result.fault_rate / result.rate : 0;
    std::printf(
        "goodput under the same plan (%d faults for the peer): millrace %.2f, "
        "DistributedDataParallel %.2f\n",
        result.injected, udp_share_, share);
  }

  void PrintKinds() const {
    std::printf("%-14s %8s %8s %s\n", "fault", "injected", "skipped",
                "runs that failed and had it");
    for (size_t kind = 0; kind < size_t{kFaultKinds}; ++kind) {
      std::printf("%-14s %8d %8d %d\n", NameOf(static_cast<FaultKind>(kind)),
                  counts_.injected[kind], counts_.skipped[kind], failed_with_[kind]);
    }
    if (snapshots_.empty()) std::printf("disk-full: no file system can be mounted here\n");
    std::fflush(stdout);
  }

  // Children of this process; the networks and file systems end with all of these processes.
  static int ProcessesLeft() {
    int left = 0;
    while (waitpid(-1, nullptr, WNOHANG) == 0) {
      ++left;
      break;
    }
    return left;
  }

  const double minutes_;
  const uint64_t seed_;
  const std::string only_;
  const uint32_t without_;  // kinds, by bit
  const std::string peer_;  // an interpreter; "": none
  const std::string build_, folder_;
  std::string snapshots_;  // "": none can be mounted
  double rate_ = 0, least_accuracy_ = 0;
  double udp_share_ = 0;  // goodput of the run udp
  FaultCounts counts_;
  std::array<int, kFaultKinds> failed_with_{};
};

int Main() {
  try {
    const std::string reason = WhyNot();
    if (!reason.empty()) {
      std::cout << "chaos: skipped: " << reason << std::endl;
      return 0;
    }
    for (const int signal : {SIGINT, SIGTERM}) {
      std::signal(signal, [](int) { interrupted = 1; });
    }
    return Chaos().Run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "chaos: " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace
}  // namespace millrace::test

int main(int, char** argv) {
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = google::GLOG_WARNING;
  google::InitGoogleLogging(argv[0]);
  setenv("TZ", ":/etc/localtime", 0);
  tzset();
  return millrace::test::Main();
}
