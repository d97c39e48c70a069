#include "batches/dispatcher.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using Ids = std::vector<uint64_t>;

// A dispatcher, with producers that make what it asks for at once.
class DispatcherHarness {
 public:
  DispatcherHarness(bool same, DispatcherConfig config)
      : ledger_(same ? nullptr : std::make_unique<Ledger>()), dispatcher_(config, ledger_.get()) {}

  Dispatcher& operator*() { return dispatcher_; }
  Dispatcher* operator->() { return &dispatcher_; }
  Ledger& ledger() { return *ledger_; }

  // Makes what is to be made, and returns what each consumer gets.
  std::map<uint64_t, Ids> Pump() {
    std::map<uint64_t, Ids> got;
    bool moved = true;
    while (moved) {
      moved = false;
      while (const auto job = dispatcher_.NextJob()) {
        made_.push_back(job->batch);
        dispatcher_.Done(job->slot);
        moved = true;
      }
      while (const auto delivery = dispatcher_.NextDelivery()) {
        got[delivery->to].push_back(delivery->batch);
        moved = true;
      }
    }
    return got;
  }
  int TimesMade(uint64_t batch) const {
    return static_cast<int>(std::count(made_.begin(), made_.end(), batch));
  }

 private:
  std::unique_ptr<Ledger> ledger_;
  Dispatcher dispatcher_;
  Ids made_;
};

constexpr DispatcherConfig kConfig{.slots = 12, .credit = 3, .ahead = 2};

TEST(DispatcherOfDifferentBatches, SaysWhoWaitsAndForHowMuch) {
  DispatcherHarness harness(false, kConfig);
  ASSERT_TRUE(harness->Add(1, 100));
  ASSERT_TRUE(harness->Add(2, 200));
  ASSERT_TRUE(harness->Want(1, 0));
  ASSERT_TRUE(harness->Want(1, 1));
  EXPECT_EQ(harness->demand().waiting, 1u);
  EXPECT_EQ(harness->demand().wanted, 2u);
  harness.Pump();
  EXPECT_EQ(harness->demand().waiting, 0u);
  EXPECT_EQ(harness->demand().wanted, 0u);
  ASSERT_TRUE(harness->Want(1, 2));  // it has two others
  EXPECT_EQ(harness->demand().waiting, 0u);
  EXPECT_EQ(harness->demand().wanted, 1u);
}

TEST(DispatcherOfDifferentBatches, MakesEachBatchOnceForOneConsumer) {
  DispatcherHarness harness(false, kConfig);
  ASSERT_TRUE(harness->Add(1, 100));
  ASSERT_TRUE(harness->Add(2, 200));
  harness.Pump();
  EXPECT_EQ(harness.TimesMade(0) + harness.TimesMade(1), 2);  // ahead
  EXPECT_TRUE(harness->Want(1, 0));
  EXPECT_TRUE(harness->Want(2, 0));
  EXPECT_TRUE(harness->Want(1, 1));
  const auto got = harness.Pump();
  EXPECT_EQ(got.at(1), (Ids{0, 2}));
  EXPECT_EQ(got.at(2), (Ids{1}));
  for (uint64_t batch = 0; batch < 3; ++batch) EXPECT_EQ(harness.TimesMade(batch), 1);
}

TEST(DispatcherOfDifferentBatches, HoldsASlowConsumerToItsCreditAndLetsOthersGoOn) {
  DispatcherHarness harness(false, kConfig);
  ASSERT_TRUE(harness->Add(1, 100));
  ASSERT_TRUE(harness->Add(2, 200));
  for (uint64_t n = 0; n < 3; ++n) EXPECT_TRUE(harness->Want(1, n));
  EXPECT_FALSE(harness->Want(1, 3));
  harness.Pump();  // and consumer 1 releases nothing
  for (uint64_t n = 0; n < 1000; ++n) {
    ASSERT_TRUE(harness->Want(2, n));
    EXPECT_EQ(harness.Pump()[2], (Ids{n + 3}));
    harness->Release(2, n);
    EXPECT_LE(harness->used_slots(), kConfig.slots);
  }
}

TEST(DispatcherOfDifferentBatches, RefusesConsumersForWhichItHasNoSlots) {
  DispatcherHarness harness(false, kConfig);
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_TRUE(harness->Add(id, id));
  EXPECT_FALSE(harness->Add(4, 4));
  harness->Remove(2);
  EXPECT_TRUE(harness->Add(4, 4));
}

TEST(DispatcherOfDifferentBatches, GivesTheLayersOfANetTheSameBatch) {
  DispatcherHarness harness(false, kConfig);
  ASSERT_TRUE(harness->Add(1, 100));
  ASSERT_TRUE(harness->Add(2, 100));
  ASSERT_TRUE(harness->Add(3, 200));
  harness->Want(1, 0);
  harness->Want(3, 0);
  EXPECT_EQ(harness.Pump(), (std::map<uint64_t, Ids>{{1, {0}}, {3, {1}}}));
  harness->Release(1, 0);  // the other layer has not asked for it yet
  harness->Want(2, 0);
  EXPECT_EQ(harness.Pump(), (std::map<uint64_t, Ids>{{2, {0}}}));
  EXPECT_EQ(harness.TimesMade(0), 1);
}

TEST(DispatcherOfDifferentBatches, ALayerThatDoesNotAskBlocksNobody) {
  DispatcherHarness harness(false, kConfig);
  ASSERT_TRUE(harness->Add(1, 100));
  ASSERT_TRUE(harness->Add(2, 100));
  for (uint64_t n = 0; n < 50; ++n) {
    ASSERT_TRUE(harness->Want(1, n));
    ASSERT_EQ(harness.Pump()[1], (Ids{n})) << n;
    harness->Release(1, n);
  }
}

TEST(DispatcherOfDifferentBatches, GivesWhatIsDroppedToOthers) {
  DispatcherHarness harness(false, kConfig);
  ASSERT_TRUE(harness->Add(1, 100));
  ASSERT_TRUE(harness->Add(2, 200));
  harness->Want(1, 0);
  harness->Want(1, 1);
  harness.Pump();
  harness->Drop(1, 0);
  harness->Want(2, 0);
  EXPECT_EQ(harness.Pump()[2], (Ids{0}));
}

TEST(DispatcherOfDifferentBatches, KeepsTheSlotsThatALostConsumerMayStillRead) {
  DispatcherHarness harness(false, kConfig);
  ASSERT_TRUE(harness->Add(1, 100));
  harness->Want(1, 0);
  const auto job = harness->NextJob();
  ASSERT_TRUE(job);
  harness->Done(job->slot);
  const auto delivery = harness->NextDelivery();
  ASSERT_TRUE(delivery);
  harness->Abandon(1);
  harness.ledger().ReturnAll(100);
  ASSERT_TRUE(harness->Add(2, 200));
  std::set<size_t> slots;
  for (uint64_t n = 0; n < 40; ++n) {
    ASSERT_TRUE(harness->Want(2, n));
    while (const auto next = harness->NextJob()) {
      slots.insert(next->slot);
      harness->Done(next->slot);
    }
    ASSERT_TRUE(harness->NextDelivery());
    harness->Release(2, n);
  }
  EXPECT_FALSE(slots.contains(delivery->slot));
  const size_t used = harness->used_slots();
  harness->Remove(1);
  EXPECT_LT(harness->used_slots(), used);
}

TEST(DispatcherOfSameBatches, MakesEachBatchOnceForAll) {
  DispatcherHarness harness(true, kConfig);
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(harness->Add(id, id));
  for (uint64_t n = 0; n < 100; ++n) {
    for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(harness->Want(id, n));
    const auto got = harness.Pump();
    for (uint64_t id = 1; id <= 3; ++id) {
      EXPECT_EQ(got.at(id), (Ids{n}));
      harness->Release(id, n);
    }
  }
  for (uint64_t n = 0; n < 100; ++n) EXPECT_EQ(harness.TimesMade(n), 1) << n;
}

TEST(DispatcherOfSameBatches, NobodyGetsAheadOfTheSlowestByMoreThanTheSlots) {
  DispatcherHarness harness(true, kConfig);
  ASSERT_TRUE(harness->Add(1, 1));
  ASSERT_TRUE(harness->Add(2, 2));
  ASSERT_TRUE(harness->Want(2, 0));
  harness.Pump();
  uint64_t got = 0;
  for (uint64_t n = 0; n < 100; ++n) {
    if (!harness->Want(1, n)) break;
    const auto each = harness.Pump();
    if (!each.contains(1)) break;
    harness->Release(1, n);
    ++got;
  }
  EXPECT_LE(got, kConfig.slots);
  EXPECT_GE(got, kConfig.slots - kConfig.ahead - 1);
  // The slow one goes on: so does the other.
  harness->Release(2, 0);
  EXPECT_TRUE(harness.Pump().contains(1));
  // It is lost: the other need not wait for it.
  harness->Remove(2);
  harness->Release(1, got);
  for (uint64_t n = got + 1; n < 100; ++n) {
    ASSERT_TRUE(harness->Want(1, n));
    ASSERT_EQ(harness.Pump()[1], (Ids{n}));
    harness->Release(1, n);
  }
}

TEST(DispatcherOfSameBatches, AConsumerThatComesLateHoldsNobodyBack) {
  DispatcherHarness harness(true, kConfig);
  ASSERT_TRUE(harness->Add(1, 1));
  for (uint64_t n = 0; n < 50; ++n) {
    harness->Want(1, n);
    harness.Pump();
    harness->Release(1, n);
  }
  ASSERT_TRUE(harness->Add(2, 2));
  uint64_t late = 0;
  for (uint64_t n = 50; n < 150; ++n) {
    ASSERT_TRUE(harness->Want(1, n));
    ASSERT_EQ(harness.Pump()[1], (Ids{n}));
    harness->Release(1, n);
    if (n % 2 == 0) continue;
    ASSERT_TRUE(harness->Want(2, late));
    ASSERT_EQ(harness.Pump()[2], (Ids{late}));
    harness->Release(2, late++);
  }
}

// Consumers of both kinds come, go, ask, release and drop at random.
void Soak(bool same, uint64_t seed) {
  Rng rng(seed, {1});
  DispatcherHarness harness(same, {.slots = 14, .credit = 3, .ahead = 2});
  struct State {
    uint64_t sequence, next;
    std::set<uint64_t> held;
  };
  std::map<uint64_t, State> consumers;
  uint64_t last_id = 0;
  for (int step = 0; step < 2000; ++step) {
    const uint64_t id = last_id == 0 ? 0 : 1 + rng.Below(last_id);
    const auto found = consumers.find(id);
    switch (rng.Below(10)) {
      case 0:
        if (harness->Add(last_id + 1, 1000 + last_id))
          consumers[++last_id] = {1000 + last_id, 0, {}};
        break;
      case 1:
        if (found == consumers.end() || rng.Below(4) > 0) break;
        harness->Remove(id);
        if (!same) harness.ledger().ReturnAll(found->second.sequence);
        consumers.erase(found);
        break;
      case 2:
      case 3:
      case 4:
        if (found == consumers.end() || found->second.held.empty()) break;
        harness->Release(id, *found->second.held.begin());
        if (!same) harness.ledger().Consume(found->second.sequence, *found->second.held.begin());
        found->second.held.erase(found->second.held.begin());
        break;
      default:
        if (found == consumers.end()) break;
        if (harness->Want(id, found->second.next)) found->second.held.insert(found->second.next++);
        EXPECT_LE(found->second.held.size(), 3u);
    }
    harness.Pump();
    ASSERT_LE(harness->used_slots(), 14u);
  }
  // Whoever is left goes on to the end, one after the other.
  while (!consumers.empty()) {
    auto& [id, state] = *consumers.begin();
    for (const uint64_t number : state.held) harness->Release(id, number);
    if (same) {
      for (auto& [other, others_state] : consumers) {
        if (other != id) harness->Remove(other);
      }
    }
    harness.Pump();
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(harness->Want(id, state.next));
      ASSERT_TRUE(harness.Pump().contains(id)) << "seed " << seed;
      harness->Release(id, state.next++);
    }
    harness->Remove(id);
    if (same) return;
    consumers.erase(consumers.begin());
  }
}

TEST(Dispatcher, NeverStopsGivingBatches) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Soak(false, Seed() + seed);
    Soak(true, Seed() + seed);
  }
}

}  // namespace
}  // namespace millrace::test
