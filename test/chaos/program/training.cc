#include "test/chaos/program/training.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "solver/snapshot.h"

namespace millrace::test {
namespace {

constexpr char kNet[] = "test/chaos/fashion_net.prototxt";
// Timeouts, generous enough for a machine that is busy with other work.
constexpr double kViewSeconds = 90;    // to form one view after the faults
constexpr double kStillSeconds = 150;  // without an iteration, a node's exit or other progress
constexpr double kStopSeconds = 60;    // from SIGTERM to exit
constexpr auto kStep = std::chrono::milliseconds(20);
constexpr size_t kKeptSnapshots = 4;

}  // namespace

Training::Training(const TrainingOptions& options)
    : options_(options), network_(1500, options.nodes), ended_(static_cast<size_t>(options.nodes)) {
  std::filesystem::remove_all(options_.folder);
  MakeDirectories(options_.folder);
  log_.open(options_.folder + "/faults.log");
  bad_.emplace(network_, Harm{}, options_.seed);
  MountSnapshots();
  WriteFiles();
  std::vector<std::string> full;
  for (size_t i = 0; i < nodes_.size() && !options_.snapshots.empty(); ++i) {
    full.push_back(SnapshotFolder(i));
  }
  injector_.emplace(network_, &*bad_, &nodes_, full, &log_);
}

Training::~Training() {
  nodes_.clear();
  for (int i = 0; i < options_.nodes && !options_.snapshots.empty(); ++i) {
    umount2(SnapshotFolder(static_cast<size_t>(i)).c_str(), MNT_DETACH);
  }
}

std::string Training::SnapshotFolder(size_t node) const {
  const std::string& base = options_.snapshots.empty() ? options_.folder : options_.snapshots;
  return base + "/snapshots-" + static_cast<char>('a' + node);
}

void Training::MountSnapshots() {
  for (int i = 0; i < options_.nodes; ++i) {
    const std::string folder = SnapshotFolder(static_cast<size_t>(i));
    MakeDirectories(folder);
    if (!options_.snapshots.empty() &&
        mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=16m") != 0) {
      throw Error(folder, ": no file system of its own: ", ErrnoText(errno));
    }
  }
}

void Training::WriteFiles() {
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(options_.folder + "/" + name) << text;
    return options_.folder + "/" + name;
  };
  std::string topology = "name: \"chaos\"\n";
  for (int i = 0; i < options_.nodes; ++i) {
    topology += StrCat("node { name: \"", static_cast<char>('a' + i), "\" address: \"",
                       Network::AddressOf(i), "\" interface: \"", Network::DeviceOf(i),
                       "\" mac: \"", Network::MacOf(i), "\" }\n");
  }
  topology += StrCat("segment { name: \"lan\" transport: \"", options_.transport,
                     "\" heartbeat_ms: 50 peer_timeout_ms: 1000 max_mbps: 100 ",
                     options_.segment, " }\n");
  const std::string topology_file = write("topology.prototxt", topology);
  chmod(write("key", std::string(64, '7')).c_str(), 0600);
  for (int i = 0; i < options_.nodes; ++i) {
    const char name = static_cast<char>('a' + i);
    const std::string solver = write(
        StrCat(name, ".prototxt"),
        StrCat(
            "net: \"", kNet, "\"\ntest_iter: 10\ntest_interval: ", options_.max_iter / 3,
            "\ntest_initialization: false\nbase_lr: 0.002\nmomentum: 0.9\nweight_decay: 0.0005\n",
            "lr_policy: \"fixed\"\ndisplay: 50\nmax_iter: ", options_.max_iter,
            "\nsnapshot: ", options_.snapshot_interval, "\nsnapshot_prefix: \"",
            SnapshotFolder(static_cast<size_t>(i)),
            "/run\"\nrandom_seed: ", 1 + options_.seed % 1'000'000'000, "\nsolver_mode: CPU\n"));
    nodes_.push_back(std::make_unique<ChaosNode>(
        network_, i,
        std::vector<std::string>{options_.millrace, "train", "--solver=" + solver,
                                 "--topology=" + topology_file, StrCat("--node=", name),
                                 StrCat("--metrics=", options_.folder, "/", name, ".jsonl")},
        options_.folder));
  }
}

void Training::Fail(const std::string& what) {
  log_ << "FAILED: " << what << std::endl;
  result_.failures.push_back(what);
}

TrainingResult Training::Run() {
  begin_ = Clock::now();
  for (auto& node : nodes_) node->Start();
  if (AwaitOneView("at the start")) {
    InjectFaults();
    const bool together = AwaitOneView("after the faults");
    ending_ = true;
    if (together) {
      for (const auto& node : nodes_) own_then_.push_back(node->view().own);
      global_then_ = MaxIterations();
      time_then_ = Now();
    }
    AwaitEnd();
  }
  result_.seconds = Now();
  if (std::all_of(ended_.begin(), ended_.end(), [](bool ended) { return ended; })) {
    JudgeCounts();
    JudgeReplicas();
    JudgeModel();
    JudgeIntermediateModels();
  }
  JudgeLogs();
  JudgeRemains();
  result_.faults = injector_->counts();
  const BadSwitch::Counts& counts = bad_->counts();
  result_.lost = counts.lost;
  result_.damaged = counts.damaged + counts.damaged_unseen;
  result_.duplicated = counts.duplicated;
  result_.reordered = counts.reordered;
  result_.too_long = counts.too_long;
  result_.cut = counts.cut;
  result_.forged = counts.forged;
  for (const auto& node : nodes_) {
    result_.starts += node->starts();
    result_.most_rss_mib = std::max(result_.most_rss_mib, node->most_rss_mib());
  }
  return result_;
}

bool Training::Step() {
  std::this_thread::sleep_for(kStep);
  const std::vector<CounterFileReading> counter_files = ReadCounterFiles();
  for (auto& node : nodes_) {
    node->Update(counter_files);
    const std::optional<JoinTime> join = node->TakeJoin();
    if (join && node->starts() > 1) result_.joins.push_back(*join);
  }
  Reap();
  if (Now() - pruned_ > 2) PruneSnapshots();
  if (Now() - timed_ > 1) TimeIterations();
  if (options_.interrupted == nullptr || !*options_.interrupted) return true;
  Fail("interrupted");
  return false;
}

void Training::Reap() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (const std::optional<int> status = nodes_[i]->Reap()) JudgeEnd(i, *status);
    if (nodes_[i]->StoppingFor() < kStopSeconds) continue;
    Fail(StrCat("node ", nodes_[i]->name(), " goes on ", kStopSeconds, " s after SIGTERM"));
    nodes_[i]->Kill();
  }
}

void Training::JudgeEnd(size_t i, int status) {
  const ChaosNode& node = *nodes_[i];
  if (node.was_killed()) return;
  log_ << Now() << " node " << node.name() << " has ended with status " << status << std::endl;
  if (node.was_stopped()) {
    if (status != 0)
      Fail(StrCat("node ", node.name(), " ends with status ", status, " after SIGTERM"));
    return;
  }
  if (ending_) {
    ended_[i] = true;
    if (status != 0) Fail(StrCat("node ", node.name(), " ends with status ", status));
    return;
  }
  if (status == 0 && node.view().global >= options_.max_iter) {
    ended_[i] = true;
    return;
  }
  // A node may exit because of a full disk if it logs the reason.
  if (status == 1 && node.Log().find("No space left on device") != std::string::npos) {
    ++result_.full_disk_ends;
  } else {
    Fail(StrCat("at ", Now(), " s node ", node.name(), " ends with status ", status,
                ", which nothing had asked for"));
  }
  injector_->Lost(static_cast<int>(i));
}

int64_t Training::MaxIterations() const {
  int64_t most = 0;
  for (const auto& node : nodes_) most = std::max(most, node->view().global);
  return most;
}

bool Training::InOneView() const {
  int leaders = 0;
  int64_t least = INT64_MAX;
  for (const auto& node : nodes_) {
    const NodeView& view = node->view();
    // The state of a process that is about to exit does not describe its successor.
    if (!node->running() || node->frozen() || node->ending()) return false;
    if (view.members != options_.nodes || !view.in_sync) return false;
    leaders += view.is_leader;
    least = std::min(least, view.global);
  }
  return leaders == 1 && MaxIterations() - least <= UnderWay();
}

bool Training::AwaitOneView(const std::string& when) {
  const double begin = Now();
  while (Now() - begin < kViewSeconds) {
    if (!Step()) return false;
    injector_->Poll();
    if (std::find(ended_.begin(), ended_.end(), true) != ended_.end()) {
      Fail(StrCat("the run has come to its end before all nodes were in one view ", when));
      return false;
    }
    if (!InOneView()) continue;
    log_ << Now() << " all nodes are in one view " << when << std::endl;
    return true;
  }
  std::string views;
  for (const auto& node : nodes_) {
    const NodeView& view = node->view();
    views += StrCat("; ", node->name(), node->running() ? "" : " (ended)", ": ", view.members,
                    " members, ", view.in_sync ? "in sync" : "not in sync",
                    view.is_leader ? ", leads" : "", ", iteration ", view.global);
  }
  Fail(StrCat("the nodes are not in one view ", when, views));
  return false;
}

void Training::InjectFaults() {
  const std::vector<Fault> plan = MakePlan({.seed = options_.seed,
                                            .nodes = options_.nodes,
                                            .seconds = options_.fault_seconds,
                                            .first_kind = options_.first_kind,
                                            .without = options_.without});
  if (options_.fault_seconds == 0) return;
  for (const Fault& fault : plan) log_ << "plan: " << Describe(fault) << "\n";
  result_.planned = static_cast<int>(plan.size());
  const double begin = Now();
  const int64_t iterations_before = MaxIterations();
  size_t next = 0;
  double present = 0, before = 0;
  while (Step()) {
    const double now = Now() - begin;
    present += Present() * (now - std::exchange(before, now));
    injector_->EndDue(now);
    for (; next < plan.size() && plan[next].begin <= now; ++next) {
      // If this machine stalled past the end of the fault, the fault is skipped.
      if (now < plan[next].end) injector_->Begin(plan[next], now);
    }
    const bool enough = MaxIterations() >= options_.max_iter - Reserve();
    if (now >= options_.fault_seconds || enough) break;
  }
  result_.fault_rate = static_cast<double>(MaxIterations() - iterations_before) / (Now() - begin);
  result_.present = before > 0 ? present / before : 0;
  injector_->EndDue(-1);
  log_ << Now() << " faults are over at iteration " << MaxIterations() << std::endl;
}

double Training::Present() const {
  const auto count = std::count_if(nodes_.begin(), nodes_.end(), [](const auto& node) {
    return node->running() && !node->frozen() && node->view().in_sync;
  });
  return static_cast<double>(count) / static_cast<double>(nodes_.size());
}

int64_t Training::Reserve() const {
  return static_cast<int64_t>(options_.reserve_seconds * std::max(options_.rate, fastest_));
}

void Training::TimeIterations() {
  const int64_t most = MaxIterations();
  const double rate = static_cast<double>(most - timed_iterations_) / (Now() - timed_);
  if (timed_iterations_ > 0) fastest_ = std::max(fastest_, rate);
  timed_ = Now();
  timed_iterations_ = most;
}

void Training::AwaitEnd() {
  double moved = Now();
  int64_t before = -1;
  while (!std::all_of(ended_.begin(), ended_.end(), [](bool ended) { return ended; })) {
    if (!Step()) return;
    injector_->Poll();
    int64_t state = 0;
    for (size_t i = 0; i < nodes_.size(); ++i) state += nodes_[i]->view().global + ended_[i];
    if (state != before) moved = Now();
    before = state;
    if (result_.rate == 0 && global_then_ >= 0 && MaxIterations() >= options_.max_iter) {
      result_.rate = static_cast<double>(MaxIterations() - global_then_) / (Now() - time_then_);
    }
    if (Now() - moved < kStillSeconds) continue;
    Fail(StrCat("nothing has moved for ", kStillSeconds, " s at iteration ", MaxIterations()));
    return;
  }
  for (auto& node : nodes_) node->Update({});
}

// Keeps the newest snapshots; checks the weights of the others.
void Training::PruneSnapshots() {
  pruned_ = Now();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    std::vector<std::filesystem::directory_entry> files;
    for (const auto& file : std::filesystem::directory_iterator(SnapshotFolder(i))) {
      if (file.path().string().find("_iter_") != std::string::npos &&
          !file.path().string().ends_with(".tmp")) {
        files.push_back(file);
      }
    }
    std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
      return a.last_write_time() > b.last_write_time();
    });
    for (size_t at = 3 * kKeptSnapshots; at < files.size(); ++at) {
      const std::string path = files[at].path();
      if (path.ends_with(".caffemodel")) CheckWeights(path);
      std::filesystem::remove(path);
    }
  }
}

}  // namespace millrace::test
