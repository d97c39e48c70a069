#include "batches/ledger.h"

#include <sys/stat.h>

#include <map>
#include <set>
#include <vector>

#include "base/files/file.h"
#include "base/rng.h"
#include "batches/frames.h"
#include "batches/ledger_file.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

constexpr uint64_t kA = 1, kB = 2;  // sequences

// What a ledger answers, for comparisons.
std::vector<LedgerEvent> EventsOf(const Ledger& ledger) {
  std::vector<LedgerEvent> events;
  ledger.ForEachEvent([&](const LedgerEvent& event) { events.push_back(event); });
  return events;
}
std::string TextOf(const Ledger& ledger) {
  std::string text;
  for (const LedgerEvent& event : EventsOf(ledger)) text += LedgerRecord(event);
  return text;
}

TEST(Ledger, GivesEachBatchToOneSequence) {
  Ledger ledger;
  EXPECT_EQ(ledger.Take(kA, 0), 0u);
  EXPECT_EQ(ledger.Take(kB, 0), 1u);
  EXPECT_EQ(ledger.Take(kB, 1), 2u);
  EXPECT_EQ(ledger.Take(kA, 1), 3u);
  EXPECT_EQ(ledger.Take(kA, 0), 0u);  // asked for again
  EXPECT_EQ(ledger.next(), 4u);
}

TEST(Ledger, GivesReturnedBatchesFirst) {
  Ledger ledger(100);
  for (uint64_t n = 0; n < 4; ++n) EXPECT_EQ(ledger.Take(kA, n), 100 + n);
  EXPECT_TRUE(ledger.Consume(kA, 1));
  EXPECT_EQ(ledger.ReturnAll(kA), 3u);
  EXPECT_EQ(ledger.Upcoming(5), (std::vector<uint64_t>{100, 102, 103, 104, 105}));
  EXPECT_EQ(ledger.Take(kB, 0), 100u);
  EXPECT_EQ(ledger.Take(kB, 1), 102u);
  EXPECT_EQ(ledger.Take(kB, 2), 103u);
  EXPECT_EQ(ledger.Take(kB, 3), 104u);
}

TEST(Ledger, NeverGivesAConsumedBatchToOthers) {
  Ledger ledger;
  ledger.Take(kA, 0);
  EXPECT_TRUE(ledger.Consume(kA, 0));
  ledger.Return(kA, 0);
  EXPECT_EQ(ledger.ReturnAll(kA), 0u);
  EXPECT_EQ(ledger.Take(kB, 0), 1u);
}

TEST(Ledger, RepeatsTheBatchesOfASequenceThatGoesOnEarlier) {
  Ledger ledger;
  std::vector<uint64_t> first;
  for (uint64_t n = 0; n < 6; ++n) {
    ledger.Take(kB, n);
    first.push_back(*ledger.Take(kA, n));
    ledger.Consume(kA, n);
  }
  for (uint64_t n = 3; n < 6; ++n) {
    EXPECT_EQ(ledger.Take(kA, n), first[n]);
    EXPECT_TRUE(ledger.Consume(kA, n));
  }
  EXPECT_EQ(ledger.Take(kA, 6), 12u);
}

TEST(Ledger, SaysWhichBatchesASequenceHasLost) {
  Ledger ledger;
  ledger.Take(kA, 0);
  ledger.Take(kA, 1);
  ledger.Consume(kA, 0);
  ledger.ReturnAll(kA);
  EXPECT_TRUE(ledger.Has(kA, 0));
  EXPECT_FALSE(ledger.Has(kA, 1));
  EXPECT_FALSE(ledger.Consume(kA, 1));
  EXPECT_FALSE(ledger.Consume(kB, 0));
  EXPECT_FALSE(ledger.Knows(kB));
}

TEST(Ledger, DoesNotKeepNumbersForEver) {
  Ledger ledger;
  for (uint64_t n = 0; n < Ledger::kKeptNumbers + 10; ++n) {
    ledger.Take(kA, n);
    ledger.Consume(kA, n);
  }
  EXPECT_FALSE(ledger.Take(kA, 0));
  EXPECT_EQ(ledger.Take(kA, 10), 10u);
  Ledger again;
  for (const LedgerEvent& event : EventsOf(ledger)) ASSERT_TRUE(again.Apply(event));
  EXPECT_FALSE(again.Take(kA, 0));
}

TEST(Ledger, DoesNotKeepSequencesForEver) {
  Ledger ledger;
  ledger.Take(kA, 0);  // stays taken
  for (uint64_t id = 10; id < 10 + 2 * Ledger::kMaxSequences; ++id) {
    ledger.Take(id, 0);
    ledger.Consume(id, 0);
  }
  EXPECT_TRUE(ledger.Knows(kA));
  EXPECT_FALSE(ledger.Knows(10));
  EXPECT_TRUE(ledger.Knows(9 + 2 * Ledger::kMaxSequences));
}

TEST(Ledger, FollowsASequenceThatLeavesNumbersOut) {
  Ledger ledger;
  EXPECT_EQ(ledger.Take(kA, 5), 0u);
  EXPECT_EQ(ledger.Take(kA, 9), 1u);
  EXPECT_EQ(ledger.Take(kA, 7), 2u);
  EXPECT_EQ(ledger.Take(kA, 3), 3u);
  EXPECT_EQ(ledger.Take(kA, 9), 1u);
  EXPECT_FALSE(ledger.Take(kA, 10 + 2 * Ledger::kKeptNumbers));  // while batches are open
}

// Workers take, train on, lose and repeat batches at random.
class RandomLedger {
 public:
  explicit RandomLedger(uint64_t seed) : rng_(seed, {1}) {}

  void Step(Ledger* ledger) {
    const uint64_t sequence = 1 + rng_.Below(4), number = rng_.Below(40);
    switch (rng_.Below(8)) {
      case 0:
        ledger->Return(sequence, number);
        break;
      case 1:
        if (rng_.Below(4) == 0) ledger->ReturnAll(sequence);
        break;
      case 2:
      case 3:
        if (ledger->Consume(sequence, number)) {
          const uint64_t batch = *ledger->Take(sequence, number);
          const auto [found, is_new] = consumed_.try_emplace(batch, std::pair(sequence, number));
          // Trained on by one sequence, as one of its numbers.
          EXPECT_EQ(found->second, std::pair(sequence, number)) << batch;
        }
        break;
      default:
        ledger->Take(sequence, number);
    }
  }
  // Every batch below the next one is consumed, taken or free.
  void ExpectNoneLost(Ledger* ledger) {
    for (const uint64_t sequence : ledger->OpenSequences()) ledger->ReturnAll(sequence);
    const uint64_t end = ledger->next();
    std::set<uint64_t> all;
    for (const auto& [batch, by] : consumed_) all.insert(batch);
    const size_t consumed = all.size();
    for (const uint64_t batch : ledger->Upcoming(end - consumed)) {
      EXPECT_TRUE(all.insert(batch).second) << batch;
    }
    EXPECT_EQ(all.size(), end);
    EXPECT_TRUE(all.empty() || *all.rbegin() == end - 1);
  }

 private:
  Rng rng_;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> consumed_;
};

TEST(Ledger, LosesAndRepeatsNoBatch) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    RandomLedger workers(Seed() + seed);
    Ledger ledger;
    for (int i = 0; i < 300; ++i) workers.Step(&ledger);
    workers.ExpectNoneLost(&ledger);
  }
}

TEST(Ledger, CanBeMadeAgainOfItsEvents) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomLedger workers(Seed() + seed);
    std::vector<LedgerEvent> events;
    Ledger ledger(7, [&](const LedgerEvent& event) { events.push_back(event); });
    for (int i = 0; i < 200; ++i) workers.Step(&ledger);
    Ledger again(7), compact;
    for (const LedgerEvent& event : events) ASSERT_TRUE(again.Apply(event));
    for (const LedgerEvent& event : EventsOf(ledger)) ASSERT_TRUE(compact.Apply(event));
    EXPECT_EQ(TextOf(again), TextOf(ledger));
    EXPECT_EQ(TextOf(compact), TextOf(ledger));
  }
}

class LedgerFiles : public testing::Test {
 protected:
  TempDir folder_;
  const std::string path_ = folder_ / "state";
};

TEST_F(LedgerFiles, GoOnAfterAProcessHasEnded) {
  RandomLedger workers(Seed());
  std::string before;
  for (int life = 0; life < 5; ++life) {
    LedgerFile file(path_, 99, 3);
    EXPECT_EQ(file.has_continued(), life > 0);
    if (life > 0) {
      EXPECT_EQ(TextOf(file.ledger()), before);
    }
    for (int i = 0; i < 100; ++i) workers.Step(&file.ledger());
    before = TextOf(file.ledger());
  }
}

TEST_F(LedgerFiles, LeaveOutARecordThatWasBeingWritten) {
  {
    LedgerFile file(path_, 99, 0);
    file.ledger().Take(kA, 0);
    file.ledger().Take(kA, 1);
  }
  const std::string content = ReadFile(path_);
  for (const size_t cut : {size_t{1}, size_t{9}, kLedgerRecordBytes - 1}) {
    WriteFile(path_, content.substr(0, content.size() - cut));
    LedgerFile file(path_, 99, 0);
    EXPECT_TRUE(file.ledger().Has(kA, 0));
    EXPECT_FALSE(file.ledger().Has(kA, 1));
  }
}

TEST_F(LedgerFiles, AreRefusedForAnotherService) {
  { LedgerFile file(path_, 99, 0); }
  EXPECT_CONTAINS(ErrorOf([&] { LedgerFile file(path_, 98, 0); }), "whose batches are others");
  WriteFile(path_, "something else that is longer than a record");
  EXPECT_CONTAINS(ErrorOf([&] { LedgerFile file(path_, 99, 0); }),
                  path_ + ": is no state file of a minibatch service");
  EXPECT_CONTAINS(ErrorOf([&] { LedgerFile file(folder_ / "none/state", 99, 0); }),
                  "cannot be opened");
}

TEST_F(LedgerFiles, AreUsedByOneProcess) {
  LedgerFile file(path_, 99, 0);
  EXPECT_CONTAINS(ErrorOf([&] { LedgerFile other(path_, 99, 0); }), "another process uses it");
}

TEST_F(LedgerFiles, RefuseRecordsThatDoNotFit) {
  const std::string content = LedgerHeader(99, 0) + LedgerRecord({LedgerEvent::Kind::kConsumed, kA,
                                                                  0, 0});  // was never taken
  EXPECT_CONTAINS(ErrorOf([&] { ParseLedger(content, "state"); }),
                  "state: record 1 does not fit those before it");
}

}  // namespace
}  // namespace millrace::test
