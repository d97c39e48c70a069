#include "train/split_test.h"

#include <glog/logging.h>

#include <algorithm>

namespace millrace {
namespace {

void Publish(const TestPeers& peers, const TestShare& share) {
  const std::string bytes = share.SerializeAsString();
  peers.publish(std::as_bytes(std::span(bytes)));
}

}  // namespace

TestPeers TestPeersOf(Cluster* cluster) {
  return {.self = cluster->node(),
          .publish = [=](auto bytes) { cluster->Publish(Topic::kTest, bytes); },
          .read = [=] { return cluster->Read(Topic::kTest); },
          .leads = [=] { return cluster->leads(); },
          .alone = [=] { return cluster->alone(); }};
}

SplitTest::SplitTest(Tester* tester, TestPeers peers, const Clock* clock,
                     std::function<bool()> stop)
    : tester_(*tester), peers_(std::move(peers)), clock_(*clock), stop_(std::move(stop)) {}

bool SplitTest::Fits(const Tester& tester) {
  // The most that protobuf takes: tag and value of each number.
  size_t bytes = 11;
  for (int net = 0; net < tester.nets(); ++net) bytes += 48 + 8 * tester.outputs(net);
  return bytes <= kMaxBulletinBytes;
}

void SplitTest::Join(int64_t iteration) {
  TestShare share;
  // What is due at this very iteration it will do its part of.
  share.set_test(iteration > 0 ? tester_.NumberOf(iteration - 1) : tester_.NumberOf(0) - 1);
  Publish(peers_, share);
}

void SplitTest::Begin(int64_t iteration) {
  std::lock_guard lock(mutex_);
  if (open_ && Logs()) FinishLocked();
  open_ = false;
  results_.clear();
  led_ = peers_.leads();
  iteration_ = iteration;
  number_ = tester_.NumberOf(iteration);
  participants_ = Participants(ReadShares(peers_.read()), peers_.self, number_);
  const size_t place =
      std::find(participants_.begin(), participants_.end(), peers_.self) - participants_.begin();
  TestShare share;
  share.set_test(number_);
  const int64_t begin = clock_.NowNs();
  for (int net = 0; net < tester_.nets(); ++net) {
    const BatchRange part = ShareOf(place, participants_.size(), tester_.batches(net));
    const TestSums sums = tester_.Part(number_, net, part.first, part.count, stop_);
    if (sums.batches < part.count) return;  // given up
    TestNetSums* out = share.add_net();
    out->set_first(part.first);
    out->set_batches(sums.batches);
    out->set_loss(sums.loss);
    out->mutable_output()->Assign(sums.outputs.begin(), sums.outputs.end());
  }
  Publish(peers_, share);
  const int64_t now = clock_.NowNs();
  late_ns_ = now + kPatienceNs + 3 * (now - begin);
  open_ = true;
  FinishIfReady();
}

void SplitTest::Poll() {
  if (!open_.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && open_) FinishIfReady();
}

// Who does not lead keeps an open test until then, in case that the leader dies.
void SplitTest::FinishIfReady() {
  if (!Ready()) return;
  if (Logs()) FinishLocked();
  open_ = false;
}

bool SplitTest::Ready() const {
  return AllDone(ReadShares(peers_.read()), participants_, number_) || peers_.alone() ||
         clock_.NowNs() >= late_ns_;
}

std::vector<Evaluation> SplitTest::Finish() {
  std::lock_guard lock(mutex_);
  if (open_) FinishLocked();
  return std::exchange(results_, {});
}

void SplitTest::FinishLocked() {
  open_ = false;
  results_.clear();
  const TestShares shares = ReadShares(peers_.read());
  std::vector<TestSums> all;
  int filled = 0;
  for (int net = 0; net < tester_.nets(); ++net) {
    Gathered gathered = Gather(shares, number_, net, tester_.batches(net), tester_.outputs(net));
    for (const BatchRange& missing : gathered.missing) {
      const TestSums sums = tester_.Part(number_, net, missing.first, missing.count, stop_);
      if (sums.batches < missing.count) return;  // given up
      gathered.sums.Add(sums);
      filled += missing.count;
    }
    all.push_back(std::move(gathered.sums));
  }
  if (filled > 0) {
    LOG(INFO) << "Of the test at iteration " << iteration_ << " " << filled
              << " batches came from no other node and were evaluated here";
  }
  for (int net = 0; net < tester_.nets(); ++net) {
    results_.push_back(tester_.Report(iteration_, net, all[net]));
  }
}

}  // namespace millrace
