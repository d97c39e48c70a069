#include "data/batch_stream.h"

#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "base/rng.h"
#include "test/data/test_db.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::StreamOver;

// Labels of batch `batch` in every stream with these options.
std::vector<int> Expected(const BatchStreamOptions& options, uint64_t batch) {
  ScheduleOptions schedule_options;
  for (const auto& source : options.sources) schedule_options.sizes.push_back(source->size());
  schedule_options.shuffle = options.shuffle;
  schedule_options.rand_skip = options.rand_skip;
  schedule_options.seed = options.seed;
  schedule_options.stream = options.order;
  schedule_options.shard_index = options.shard_index;
  schedule_options.shard_count = options.shard_count;
  const Schedule schedule(schedule_options);
  std::vector<int> labels;
  for (uint64_t i = 0; i < options.batch_size; ++i) {
    const RecordLocation location = schedule.At(batch * options.batch_size + i);
    labels.push_back(
        test::LabelOf(options.sources[location.source]->MakeReader(false)->At(location.index)));
  }
  return labels;
}

// Three databases with labels 0 to 59.
struct Sources {
  Sources() {
    test::WriteLabels(folder / "a", 30, 0);
    test::WriteLabels(folder / "b", 20, 30);
    test::WriteLabels(folder / "c", 10, 50);
  }
  std::vector<std::string> paths() const { return {folder / "a", folder / "b", folder / "c"}; }
  test::TempDir folder;
};

// Takes `total` batches with `consumers` threads. Each thread passes its batches to `take`; the
// calls are serialised.
template <typename Take>
void Consume(BatchStream* stream, int consumers, int total, Take take) {
  ErrorSink errors;
  std::mutex mutex;
  std::atomic<int> left(total);
  std::vector<std::unique_ptr<Thread>> threads;
  for (int i = 0; i < consumers; ++i) {
    threads.push_back(std::make_unique<Thread>(
        "consumer",
        [&] {
          Batch batch;
          while (left-- > 0) {
            if (!stream->Next(&batch)) throw Error("the stream was stopped");
            std::lock_guard lock(mutex);
            take(batch);
          }
        },
        &errors));
  }
  for (auto& thread : threads) thread->Join();
  EXPECT_NO_THROW(errors.RethrowIfFailed());
}

TEST(BatchStream, GivesTheRecordsOfADatabaseInOrderAgainAndAgain) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 5);
  BatchStream stream(StreamOver({folder / "db"}, 3));
  Batch batch;
  for (int b = 0; b < 10; ++b) {
    ASSERT_TRUE(stream.Next(&batch));
    EXPECT_EQ(batch.number, static_cast<uint64_t>(b));
    EXPECT_EQ(batch.first_item, static_cast<uint64_t>(3 * b));
    EXPECT_EQ(test::LabelsOf(batch),
              std::vector<int>({3 * b % 5, (3 * b + 1) % 5, (3 * b + 2) % 5}));
  }
}

TEST(BatchStream, GivesBatchesLargerThanTheDatabase) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 2);
  BatchStream stream(StreamOver({folder / "db"}, 5));
  Batch batch;
  ASSERT_TRUE(stream.Next(&batch));
  EXPECT_EQ(test::LabelsOf(batch), std::vector<int>({0, 1, 0, 1, 0}));
}

TEST(BatchStream, GivesEachRecordOncePerEpochToHoweverManyConsumers) {
  const Sources sources;
  for (int consumers : {1, 2, 4}) {
    for (bool shuffle : {false, true}) {
      for (const auto& paths : {sources.paths(), std::vector<std::string>{sources.folder / "a"}}) {
        BatchStreamOptions options = StreamOver(paths, 7);
        options.shuffle = shuffle;
        options.seed = test::Seed();
        BatchStream stream(options);
        // 7 epochs are a whole number of batches.
        const int records = static_cast<int>(stream.records());
        std::vector<int> seen(records, 0);
        Consume(&stream, consumers, records, [&](const Batch& batch) {
          EXPECT_EQ(test::LabelsOf(batch), Expected(options, batch.number));
          for (int label : test::LabelsOf(batch)) ++seen[label];
          stream.MarkConsumed(batch.number);
        });
        EXPECT_EQ(seen, std::vector<int>(records, 7));
        EXPECT_EQ(stream.Position().next_batch(), static_cast<uint64_t>(records));
        EXPECT_EQ(stream.Position().outstanding_size(), 0);
      }
    }
  }
}

TEST(BatchStream, GivesBatchesInTurnToConsumersOfAnySpeed) {
  const Sources sources;
  BatchStreamOptions options = StreamOver(sources.paths(), 7);
  options.sequence = std::make_shared<BatchSequence>(3);
  BatchStream stream(options);
  std::vector<std::vector<uint64_t>> numbers(3);
  ErrorSink errors;
  std::vector<std::unique_ptr<Thread>> threads;
  for (int i = 0; i < 3; ++i) {
    threads.push_back(std::make_unique<Thread>(
        "consumer",
        [&, i] {
          Batch batch;
          for (int k = 0; k < 20; ++k) {
            if (k % (i + 1) == 0) usleep(500);
            if (!stream.Next(&batch, i)) throw Error("the stream was stopped");
            numbers[i].push_back(batch.number);
            stream.MarkConsumed(batch.number);
          }
        },
        &errors));
  }
  for (auto& thread : threads) thread->Join();
  EXPECT_NO_THROW(errors.RethrowIfFailed());
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(numbers[i].size(), 20u);
    for (uint64_t k = 0; k < 20; ++k) EXPECT_EQ(numbers[i][k], 3 * k + i);
  }
}

TEST(BatchStream, GivesANetItsBatchWhileAnotherHasNotTakenTheOneBefore) {
  const Sources sources;
  BatchStreamOptions options = StreamOver(sources.paths(), 7);
  options.sequence = std::make_shared<BatchSequence>(2);
  options.read_ahead = 1;
  BatchStream stream(options);
  Batch batch;
  for (uint64_t pass = 0; pass < 5; ++pass) {
    ASSERT_TRUE(stream.Next(&batch, 1));
    EXPECT_EQ(batch.number, 2 * pass + 1);
    stream.MarkConsumed(batch.number);
  }
  // A resumed run takes those of the other net first.
  const caffe::StreamPosition position = stream.Position();
  EXPECT_EQ(position.next_batch(), 10u);
  EXPECT_EQ(position.outstanding_size(), 5);
  ASSERT_TRUE(stream.Next(&batch, 0));
  EXPECT_EQ(batch.number, 0u);
}

TEST(BatchStream, GivesShardsThatPartitionEachEpoch) {
  const Sources sources;
  std::vector<int> seen(60, 0);
  for (uint64_t shard = 0; shard < 3; ++shard) {
    BatchStreamOptions options = StreamOver(sources.paths(), 4);
    options.shard_index = shard;
    options.shard_count = 3;
    BatchStream stream(options);
    EXPECT_EQ(stream.records(), 20u);
    Consume(&stream, 2, 5, [&](const Batch& batch) {
      for (int label : test::LabelsOf(batch)) ++seen[label];
    });
  }
  EXPECT_EQ(seen, std::vector<int>(60, 1));
}

TEST(BatchStream, SkipsRecordsAtTheStartIfAsked) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 100);
  BatchStreamOptions options = StreamOver({folder / "db"}, 4);
  options.rand_skip = 50;
  options.seed = test::Seed();
  BatchStream stream(options);
  Batch batch;
  ASSERT_TRUE(stream.Next(&batch));
  EXPECT_EQ(test::LabelsOf(batch), Expected(options, 0));
  EXPECT_LT(test::LabelsOf(batch)[0], 50);
}

// Trains in several parts. After each part but the last, a snapshot interrupts training at a random
// point, and the next part resumes with a different number of consumers. Counts the consumed
// batches.
void TrainInSittings(BatchStreamOptions options, uint64_t seed, std::map<uint64_t, int>* trained,
                     uint64_t* reached) {
  caffe::StreamPosition position;
  Rng rng(seed, {1});
  for (int sitting = 0; sitting < 5; ++sitting) {
    options.read_ahead = 1 + static_cast<int>(rng.Below(5));
    BatchStream stream(options);
    if (sitting > 0) {
      stream.Restore(position);
      EXPECT_EQ(stream.Position().SerializeAsString(), position.SerializeAsString());
    }
    const int total = static_cast<int>(rng.Below(12));
    Consume(&stream, 1 + static_cast<int>(rng.Below(4)), total, [&](const Batch& batch) {
      EXPECT_EQ(test::LabelsOf(batch), Expected(options, batch.number));
      if (rng.Below(3) == 0) return;  // handed out, but lost in the interruption
      stream.MarkConsumed(batch.number);
      ++(*trained)[batch.number];
    });
    position = stream.Position();
  }
  // The last part consumes the outstanding batches.
  BatchStream stream(options);
  stream.Restore(position);
  Consume(&stream, 2, position.outstanding_size(), [&](const Batch& batch) {
    EXPECT_LT(batch.number, position.next_batch());
    ++(*trained)[batch.number];
  });
  *reached = position.next_batch();
}

TEST(BatchStream, NeitherRepeatsNorSkipsABatchOverAnyNumberOfResumes) {
  const Sources sources;
  for (int round = 0; round < 20; ++round) {
    BatchStreamOptions options = StreamOver(sources.paths(), 7);
    options.shuffle = round % 2 == 0;
    options.seed = test::Seed();
    std::map<uint64_t, int> trained;
    uint64_t reached = 0;
    TrainInSittings(options, test::Seed() + round, &trained, &reached);
    EXPECT_EQ(trained.size(), reached);
    for (const auto& [number, times] : trained) {
      EXPECT_LT(number, reached);
      EXPECT_EQ(times, 1) << "batch " << number;
    }
  }
}

TEST(BatchStream, ServesOutstandingBatchesFirstAndThenGoesOn) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 50);
  BatchStream stream(StreamOver({folder / "db"}, 2));
  caffe::StreamPosition position = stream.Position();
  position.set_next_batch(9);
  position.add_outstanding(7);
  position.add_outstanding(3);
  stream.Restore(position);
  Batch batch;
  for (uint64_t number : {3, 7, 9, 10}) {
    ASSERT_TRUE(stream.Next(&batch));
    EXPECT_EQ(batch.number, number);
    EXPECT_EQ(test::LabelsOf(batch)[0], static_cast<int>(2 * number));
    stream.MarkConsumed(number);
  }
  EXPECT_EQ(stream.Position().next_batch(), 11u);
  EXPECT_EQ(stream.Position().outstanding_size(), 0);
}

// A snapshot is the same however many batches a net had requested ahead of its passes.
TEST(BatchStream, HasOnePositionHoweverManyBatchesWereHandedOutAhead) {
  const Sources sources;
  const BatchStreamOptions options = StreamOver(sources.paths(), 7);
  for (int ahead = 0; ahead < 4; ++ahead) {
    BatchStream stream(options);
    Batch batch;
    for (uint64_t number = 0; number < 5u + ahead; ++number) {
      ASSERT_TRUE(stream.Next(&batch));
      if (number != 3 && number < 5) stream.MarkConsumed(number);
    }
    const caffe::StreamPosition position = stream.Position();
    EXPECT_EQ(position.next_batch(), 5u);
    ASSERT_EQ(position.outstanding_size(), 1);
    EXPECT_EQ(position.outstanding(0), 3u);
  }
}

TEST(BatchStream, GoesOnWhereItIsMovedToWhateverWasRead) {
  const Sources sources;
  for (const bool shuffle : {false, true}) {
    BatchStreamOptions options = StreamOver(sources.paths(), 7);
    options.shuffle = shuffle;
    BatchStream stream(options);
    Batch batch;
    uint64_t seeks = 0;
    for (uint64_t to : {0u, 0u, 3u, 4u, 1000u, 2u}) {
      BatchStream::Seek({&stream}, to);
      EXPECT_EQ(stream.seeks(), ++seeks);
      for (uint64_t number = to; number < to + 1 + seeks % 3; ++number) {
        ASSERT_TRUE(stream.Next(&batch));
        EXPECT_EQ(batch.number, number);
        EXPECT_EQ(batch.seeks, seeks);
        std::vector<int> labels;
        for (const RecordView& record : batch.records) labels.push_back(test::LabelOf(record));
        EXPECT_EQ(labels, Expected(options, number));
      }
    }
    // All batches handed out before the last seek count as consumed, and none after it.
    EXPECT_EQ(stream.Position().next_batch(), 2u);
    EXPECT_EQ(stream.Position().outstanding_size(), 0);
    stream.Stop();
    BatchStream::Seek({&stream}, 0);
    EXPECT_FALSE(stream.Next(&batch));
  }
}

TEST(BatchStream, RefusesDamagedPositionsInOneLine) {
  const test::TempDir folder;
  test::WriteLabels(folder / "db", 50);
  BatchStream stream(StreamOver({folder / "db"}, 2));
  const caffe::StreamPosition good = stream.Position();
  const auto error = [&](auto change) {
    caffe::StreamPosition position = good;
    change(&position);
    return test::ErrorOf([&] { stream.Restore(position); });
  };
  EXPECT_CONTAINS(error([](auto* p) { p->set_batch_size(0); }), "damaged");
  EXPECT_CONTAINS(error([](auto* p) { p->set_batch_size(UINT64_MAX); }), "damaged");
  EXPECT_CONTAINS(error([](auto* p) { p->set_records(0); }), "damaged");
  EXPECT_CONTAINS(error([](auto* p) { p->add_outstanding(0); }), "damaged");
  EXPECT_CONTAINS(error([](auto* p) { p->set_next_batch(UINT64_MAX); }), "damaged");
  EXPECT_CONTAINS(error([](auto* p) {
                    p->set_next_batch(3);
                    p->add_outstanding(1);
                    p->add_outstanding(1);
                  }),
                  "damaged");
  Batch batch;
  ASSERT_TRUE(stream.Next(&batch));
  EXPECT_CONTAINS(error([](auto*) {}), "cannot be moved");
}

// ---- Absent shards ----

// Shard `index` of three, over 60 records in one database in label order: label l belongs to shard
// l % 3.
class StreamOfAShard : public testing::Test {
 protected:
  StreamOfAShard() { test::WriteLabels(folder_ / "db", 60); }
  BatchStreamOptions Options(uint64_t index) const {
    BatchStreamOptions options = StreamOver({folder_ / "db"}, 5);
    options.shard_index = index;
    options.shard_count = 3;
    return options;
  }
  static std::vector<int> Take(BatchStream* stream, int batches) {
    std::vector<int> labels;
    Batch batch;
    for (int b = 0; b < batches; ++b) {
      EXPECT_TRUE(stream->Next(&batch));
      for (const int label : test::LabelsOf(batch)) labels.push_back(label);
      stream->MarkConsumed(batch.number);
    }
    return labels;
  }
  // Number of batches handed out before the newest assignment takes effect.
  static int BatchesBeforeTheNewest(const BatchStream& stream) {
    const caffe::StreamPosition position = stream.Position();
    if (position.assignment_size() == 0) return 0;
    const uint64_t first = position.assignment(position.assignment_size() - 1).first_batch();
    return first > position.next_batch() ? static_cast<int>(first - position.next_batch()) : 0;
  }

  const test::TempDir folder_;
};

TEST_F(StreamOfAShard, IsReadByTheOthersWhenItsReaderIsGoneFromABatchOn) {
  std::vector<int> seen(60, 0);
  for (const uint64_t shard : {0, 2}) {
    BatchStream stream(Options(shard));
    for (const int label : Take(&stream, 3)) EXPECT_EQ(label % 3, static_cast<int>(shard));
    BatchStream::SetAbsent({&stream}, {1});
    // Batches that the readers had already started are unchanged.
    for (const int label : Take(&stream, BatchesBeforeTheNewest(stream))) {
      EXPECT_EQ(label % 3, static_cast<int>(shard));
    }
    // An epoch is now 30 records (20 own, 10 of the absent shard), that is 6 batches.
    for (const int label : Take(&stream, 6 * 4)) ++seen[label];
  }
  EXPECT_EQ(seen, std::vector<int>(60, 4));
}

TEST_F(StreamOfAShard, IsLeftToItsReaderWhenThatIsBack) {
  BatchStream stream(Options(0));
  Take(&stream, 2);
  BatchStream::SetAbsent({&stream}, {1, 2});
  Take(&stream, BatchesBeforeTheNewest(stream));
  const std::vector<int> all = Take(&stream, 12);
  EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), 60u);
  BatchStream::SetAbsent({&stream}, {});
  Take(&stream, BatchesBeforeTheNewest(stream));
  for (const int label : Take(&stream, 8)) EXPECT_EQ(label % 3, 0);
  EXPECT_EQ(stream.Position().assignment(0).absent_size(), 0);
}

// Across changes of the absent shards, snapshots and resumes, no record of the stream's own shard
// is repeated or omitted, and a batch that is requested again is unchanged.
TEST_F(StreamOfAShard, GoesThroughItsOwnRecordsWhateverHappensToTheOthers) {
  const std::vector<uint64_t> sets[] = {{}, {0}, {2}, {0, 2}};
  for (uint64_t round = 0; round < 20; ++round) {
    Rng rng(test::Seed(), {round});
    std::map<uint64_t, std::vector<int>> handed_out, trained;
    caffe::StreamPosition position;
    for (int sitting = 0; sitting < 6; ++sitting) {
      BatchStreamOptions options = Options(1);
      options.read_ahead = 1 + static_cast<int>(rng.Below(5));
      BatchStream stream(options);
      if (sitting > 0) {
        stream.Restore(position);
        EXPECT_EQ(stream.Position().SerializeAsString(), position.SerializeAsString());
      }
      const auto take = [&](bool train) {
        Batch batch;
        ASSERT_TRUE(stream.Next(&batch));
        const std::vector<int> labels = test::LabelsOf(batch);
        EXPECT_EQ(handed_out.try_emplace(batch.number, labels).first->second, labels);
        if (!train) return;
        stream.MarkConsumed(batch.number);
        EXPECT_TRUE(trained.try_emplace(batch.number, labels).second);
      };
      for (uint64_t i = rng.Below(25); i > 0; --i) {
        if (rng.Below(3) == 0) BatchStream::SetAbsent({&stream}, sets[rng.Below(4)]);
        take(rng.Below(3) > 0);
      }
      position = stream.Position();
      // Those from here on are formed anew.
      handed_out.erase(handed_out.lower_bound(position.next_batch()), handed_out.end());
      if (sitting < 5) continue;
      // The remaining outstanding batches.
      BatchStream last(options);
      last.Restore(position);
      Consume(&last, 1, position.outstanding_size(), [&](const Batch& batch) {
        EXPECT_EQ(handed_out[batch.number], test::LabelsOf(batch));
        EXPECT_TRUE(trained.try_emplace(batch.number, test::LabelsOf(batch)).second);
      });
    }
    EXPECT_EQ(trained.size(), position.next_batch());
    int next = 1;
    for (const auto& [number, labels] : trained) {
      for (const int label : labels) {
        if (label % 3 != 1) continue;
        EXPECT_EQ(label, next);
        next = (next + 3) % 60;
      }
    }
  }
}

TEST_F(StreamOfAShard, HasPositionsThatDoNotGrow) {
  BatchStream stream(Options(0));
  for (int i = 0; i < 50; ++i) {
    BatchStream::SetAbsent({&stream},
                           i % 2 ? std::vector<uint64_t>{1} : std::vector<uint64_t>{1, 2});
    Take(&stream, 7);
  }
  EXPECT_LE(stream.Position().assignment_size(), 2);
}

TEST_F(StreamOfAShard, RefusesPositionsWithAssignmentsThatCannotBe) {
  BatchStream stream(Options(1));
  caffe::StreamPosition good = stream.Position();
  good.set_next_batch(9);
  good.add_outstanding(7);
  caffe::ShardAssignment* const assignment = good.add_assignment();
  assignment->set_first_batch(7);
  assignment->set_place(50);
  assignment->add_absent(0);
  const auto error = [&](auto change) {
    caffe::StreamPosition position = good;
    change(&position, position.mutable_assignment(0));
    return test::ErrorOf([&] { stream.Restore(position); });
  };
  const std::string first =
      "data layer 'data': cannot resume: the snapshot's position is damaged: assignment[0]";
  EXPECT_EQ(error([](auto*, auto* a) { a->add_absent(3); }), first);
  EXPECT_EQ(error([](auto*, auto* a) { a->add_absent(1); }), first);
  EXPECT_EQ(error([](auto*, auto* a) { a->add_absent(0); }), first);
  EXPECT_EQ(error([](auto*, auto* a) { a->set_place(UINT64_MAX); }), first);
  EXPECT_EQ(error([](auto*, auto* a) { a->set_first_batch(UINT64_MAX); }), first);
  EXPECT_CONTAINS(error([](auto* p, auto* a) { *p->add_assignment() = *a; }), "assignment[1]");
  EXPECT_CONTAINS(error([](auto*, auto* a) { a->set_first_batch(8); }),
                  "no assignment for batch 7");
  stream.Restore(good);
  EXPECT_EQ(Take(&stream, 1).size(), 5u);
}

TEST(BatchStream, ReadsABoundedNumberOfBatchesAhead) {
  const Sources sources;
  BatchStreamOptions options = StreamOver(sources.paths(), 3);
  options.read_ahead = 4;
  BatchStream stream(options);
  EXPECT_EQ(stream.batches_read(), 0u);  // nothing is read before the first Next
  Batch batch;
  for (uint64_t taken = 1; taken <= 10; ++taken) {
    ASSERT_TRUE(stream.Next(&batch));
    while (stream.batches_read() < taken + 4) boost::this_thread::yield();
    for (int i = 0; i < 100; ++i) boost::this_thread::yield();
    EXPECT_EQ(stream.batches_read(), taken + 4);
  }
}

TEST(BatchStream, StopsInAnyState) {
  const Sources sources;
  const BatchStreamOptions options = StreamOver(sources.paths(), 3);
  { BatchStream never_used(options); }
  {
    BatchStream stopped_before_use(options);
    stopped_before_use.Stop();
    Batch batch;
    EXPECT_FALSE(stopped_before_use.Next(&batch));
  }
  for (int i = 0; i < 50; ++i) {  // the readers are starting, reading, or blocked on a full ring
    BatchStream stream(options);
    Batch batch;
    for (int k = 0; k <= i % 5; ++k) ASSERT_TRUE(stream.Next(&batch));
    stream.Stop();
    EXPECT_FALSE(stream.Next(&batch));
    stream.Stop();
  }
}

TEST(BatchStream, StopWakesConsumersThatWait) {
  const Sources sources;
  for (int round = 0; round < 30; ++round) {
    BatchStreamOptions options = StreamOver(sources.paths(), 3);
    options.read_ahead = 1;
    BatchStream stream(options);
    ErrorSink errors;
    std::atomic<int> taken(0);
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < 3; ++i) {
      threads.push_back(std::make_unique<Thread>(
          "consumer",
          [&] {
            Batch batch;
            while (stream.Next(&batch)) ++taken;
          },
          &errors));
    }
    while (taken < round) boost::this_thread::yield();
    stream.Stop();
    for (auto& thread : threads) thread->Join();
    EXPECT_FALSE(errors.failed());
  }
}

TEST(BatchStream, WaitingForABatchCanBeInterrupted) {
  const Sources sources;
  BatchStreamOptions options = StreamOver(sources.paths(), 3);
  options.read_ahead = 1;
  BatchStream stream(options);
  ErrorSink errors;
  std::atomic<int> taken(0);
  Thread thread(
      "consumer",
      [&] {
        Batch batch;
        while (stream.Next(&batch)) {
          stream.MarkConsumed(batch.number);
          ++taken;
        }
      },
      &errors);
  while (taken < 10) boost::this_thread::yield();
  thread.Stop();
  const caffe::StreamPosition position = stream.Position();
  EXPECT_EQ(position.next_batch(), static_cast<uint64_t>(taken));
  EXPECT_EQ(position.outstanding_size(), 0);
  Batch batch;  // the stream still serves other consumers
  ASSERT_TRUE(stream.Next(&batch));
  EXPECT_EQ(batch.number, static_cast<uint64_t>(taken));
}

TEST(BatchStream, AnErrorOfAReaderReachesEveryConsumerAndTheSink) {
  const test::TempDir folder;
  test::WriteLabels(folder / "good", 3);
  test::WriteLabels(folder / "bad", 3);
  ErrorSink errors;
  BatchStreamOptions options = StreamOver({folder / "good", folder / "bad"}, 4);
  options.errors = &errors;
  ASSERT_EQ(truncate((folder / "bad/data.mdb").c_str(), 0), 0);
  const std::string error = folder / "bad" + ": data.mdb was truncated while it was in use";
  {
    BatchStream stream(options);
    Batch batch;
    for (int i = 0; i < 3; ++i) {
      EXPECT_CONTAINS(test::ErrorOf([&] { stream.Next(&batch); }), error);
    }
  }
  EXPECT_CONTAINS(test::ErrorOf([&] { errors.RethrowIfFailed(); }), error);
}

}  // namespace
}  // namespace millrace
