#include "test/chaos/program/injector.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "base/error.h"

namespace millrace::test {
namespace {

using enum FaultKind;

constexpr int kForgedAtOnce = 5;  // forged frames per Poll

bool IsForgery(FaultKind kind) { return kind >= kRandomFrames; }

Forgery ForgeryOf(FaultKind kind) {
  if (kind == kReplay) return Forgery::kReplay;
  return kind == kTruncate ? Forgery::kTruncated : Forgery::kRandom;
}

}  // namespace

FaultInjector::FaultInjector(const Network& network, BadSwitch* bad, Nodes* nodes,
                             std::vector<std::string> snapshots, std::ostream* log)
    : network_(network),
      bad_(*bad),
      nodes_(*nodes),
      snapshots_(std::move(snapshots)),
      log_(*log),
      down_(nodes->size()),
      wanted_(nodes->size()),
      clock_shift_(nodes->size()) {}

void FaultInjector::Begin(const Fault& planned, double now) {
  Fault fault = planned;
  if (fault.kind == kKillLeader) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i]->running() && nodes_[i]->view().is_leader) fault.first = static_cast<int>(i);
    }
  }
  if (!Apply(fault)) {
    ++counts_.skipped[static_cast<size_t>(fault.kind)];
    Say("skips ", fault, now);
    return;
  }
  ++counts_.injected[static_cast<size_t>(fault.kind)];
  Say("begins", fault, now);
  active_.push_back(fault);
  SetHarms();
}

void FaultInjector::EndDue(double now) {
  for (size_t i = 0; i < active_.size();) {
    if (now >= 0 && now < active_[i].end) {
      ++i;
      continue;
    }
    const Fault fault = active_[i];
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    Say("ends  ", fault, now);
    Revert(fault);
    SetHarms();
  }
  Poll();
}

void FaultInjector::Poll() {
  for (const Fault& fault : active_) {
    if (IsForgery(fault.kind)) bad_.Forge(ForgeryOf(fault.kind), kForgedAtOnce);
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!active_.empty()) nodes_[i]->NoteFault();
    if (!wanted_[i] || nodes_[i]->running()) continue;
    nodes_[i]->Start(std::exchange(clock_shift_[i], 0));
    wanted_[i] = down_[i] = false;
  }
}

bool FaultInjector::DiskIsFull(int node) const {
  return std::any_of(active_.begin(), active_.end(), [node](const Fault& fault) {
    return fault.kind == kDiskFull && fault.first == node;
  });
}

std::vector<int> FaultInjector::ProcessesOf(const Fault& fault) const {
  std::vector<int> nodes;
  for (const int node : {fault.first, fault.second}) {
    if (node >= 0) nodes.push_back(node);
  }
  return nodes;
}

// The run must survive: requires another node that is in sync and not far behind.
bool FaultInjector::MayDisturb(const std::vector<int>& disturbed) const {
  if (disturbed.empty()) return false;
  int64_t most = 0;
  for (const auto& node : nodes_) most = std::max(most, node->view().global);
  bool other_is_well = false;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const ChaosNode& node = *nodes_[i];
    const bool well = node.running() && !node.frozen() && !down_[i] && node.view().in_sync;
    if (std::find(disturbed.begin(), disturbed.end(), static_cast<int>(i)) == disturbed.end()) {
      other_is_well |= well && 2 * node.view().global >= most;
    } else if (!node.running() || node.frozen() || down_[i]) {
      return false;
    }
  }
  return other_is_well;
}

bool FaultInjector::Apply(const Fault& fault) {
  if (IsOfProcesses(fault.kind)) return ApplyToProcesses(fault, ProcessesOf(fault));
  const std::string device = Network::DeviceOf(fault.first), port = StrCat("port", fault.first);
  if (fault.kind == kRateLimit) {
    network_.Run(network_.bridge(), {"tc", "qdisc", "replace", "dev", port, "root", "tbf", "rate",
                                     StrCat(static_cast<int>(fault.value * 1000), "kbit"), "burst",
                                     "16kb", "limit", "100000"});
  } else if (fault.kind == kLinkDown) {
    network_.Run(fault.first, {"ip", "link", "set", device, "down"});
  }
  return true;
}

bool FaultInjector::ApplyToProcesses(const Fault& fault, const std::vector<int>& disturbed) {
  if (!MayDisturb(disturbed)) return false;
  if (fault.kind == kDiskFull) {
    if (snapshots_.empty()) return false;
    FillDisk(fault.first);
    return true;
  }
  for (const int each : disturbed) {
    ChaosNode& node = *nodes_[static_cast<size_t>(each)];
    const bool freezes = fault.kind == kFreezeShort || fault.kind == kFreezeLong;
    if (!freezes) down_[static_cast<size_t>(each)] = true;
    if (freezes) node.Signal(SIGSTOP);
    if (fault.kind == kStop) node.Signal(SIGTERM);
    if (!freezes && fault.kind != kStop) node.Kill();
    if (fault.kind == kClockBack) {
      clock_shift_[static_cast<size_t>(each)] = -static_cast<int64_t>(fault.value);
    }
  }
  return true;
}

void FaultInjector::Revert(const Fault& fault) {
  if (fault.kind == kDiskFull) {
    unlink(FillerOf(fault.first).c_str());
  } else if (fault.kind == kFreezeShort || fault.kind == kFreezeLong) {
    nodes_[static_cast<size_t>(fault.first)]->Signal(SIGCONT);
  } else if (fault.kind == kRateLimit) {
    // Two rate limits of one node may overlap: the first one that ends removes both.
    network_.Run(network_.bridge(),
                 {"sh", "-c", StrCat("tc qdisc del dev port", fault.first, " root; true")});
  } else if (fault.kind == kLinkDown) {
    network_.Run(fault.first, {"ip", "link", "set", Network::DeviceOf(fault.first), "up"});
  }
  if (!IsOfProcesses(fault.kind)) return;
  for (const int each : ProcessesOf(fault)) {
    const auto node = static_cast<size_t>(each);
    if (down_[node]) wanted_[node] = true;
  }
}

void FaultInjector::Lost(int node) {
  down_[static_cast<size_t>(node)] = true;
  wanted_[static_cast<size_t>(node)] = !DiskIsFull(node);
}

void FaultInjector::SetHarms() {
  for (int from = 0; from < network_.machines(); ++from) {
    for (int to = 0; to < network_.machines(); ++to) bad_.SetHarm(from, to, HarmOf(from, to));
  }
}

Harm FaultInjector::HarmOf(int from, int to) const {
  Harm harm;
  for (const Fault& fault : active_) {
    if (!IsOfProcesses(fault.kind) && IsOnLink(fault, from, to)) Combine(fault, &harm);
  }
  return harm;
}

bool FaultInjector::IsOnLink(const Fault& fault, int from, int to) {
  switch (fault.kind) {
    case kOneWay:
      return from == fault.first && to == fault.second;
    case kPair:
      return std::minmax(from, to) == std::minmax(fault.first, fault.second);
    case kSplit:
      return ((fault.group >> from ^ fault.group >> to) & 1) != 0;
    case kIsolate:
      return from == fault.first || to == fault.first;
    case kMute:
      return from == fault.first;
    default:  // faults on frames received by one node, or by all nodes
      return fault.first < 0 || to == fault.first;
  }
}

void FaultInjector::Combine(const Fault& fault, Harm* harm) {
  switch (fault.kind) {
    case kIsolate:
    case kSplit:
    case kOneWay:
    case kPair:
    case kDeaf:
    case kMute:
      harm->cut = true;
      break;
    case kLoss:
      harm->lose = 1 - (1 - harm->lose) * (1 - fault.value);
      break;
    case kCorrupt:
      harm->damage = std::max(harm->damage, fault.value);
      break;
    case kDuplicate:
      harm->duplicate = std::max(harm->duplicate, fault.value);
      break;
    case kReorder:
      harm->reorder = std::max(harm->reorder, fault.value);
      break;
    case kBlackHole:
      harm->max_bytes = static_cast<size_t>(fault.value);
      break;
    default:
      break;
  }
}

std::string FaultInjector::FillerOf(int node) const {
  return snapshots_[static_cast<size_t>(node)] + "/filler";
}

void FaultInjector::FillDisk(int node) {
  const int fd = open(FillerOf(node).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::vector<char> block(4096);
  while (fd >= 0 && write(fd, block.data(), block.size()) > 0) {
  }
  close(fd);
}

void FaultInjector::Say(const std::string& what, const Fault& fault, double now) {
  char time[32];
  std::snprintf(time, sizeof(time), "%8.2f ", now);
  log_ << time << what << " " << Describe(fault) << std::endl;
}

}  // namespace millrace::test
