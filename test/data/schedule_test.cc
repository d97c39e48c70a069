#include "data/schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using Where = std::pair<int, uint64_t>;

Where At(const Schedule& schedule, uint64_t item) {
  const RecordLocation location = schedule.At(item);
  return {location.source, location.index};
}

std::vector<std::vector<uint64_t>> SomeSizes() {
  std::vector<std::vector<uint64_t>> all = {{1},       {7},           {1, 1},       {3, 3, 3},
                                            {10, 1},   {1, 10},       {100, 33, 7}, {0, 5, 0, 2},
                                            {1, 1000}, {64, 64, 1, 1}};
  Rng rng(test::Seed(), {1});
  for (int i = 0; i < 20; ++i) {
    std::vector<uint64_t> sizes(1 + rng.Below(6));
    for (uint64_t& size : sizes) size = 1 + rng.Below(200);
    all.push_back(sizes);
  }
  return all;
}

TEST(Interleave, NumbersEveryRecordOfEverySourceOnceInOrder) {
  for (const auto& sizes : SomeSizes()) {
    const Interleave interleave(sizes);
    std::vector<uint64_t> next(sizes.size(), 0);
    for (uint64_t r = 0; r < interleave.total(); ++r) {
      const RecordLocation location = interleave.At(r);
      EXPECT_EQ(location.index, next[location.source]++);
    }
    EXPECT_EQ(next, sizes);
  }
}

TEST(Interleave, TakesFromEachSourceItsShareAtAnyTime) {
  for (const auto& sizes : SomeSizes()) {
    const Interleave interleave(sizes);
    std::vector<double> taken(sizes.size(), 0);
    for (uint64_t r = 0; r < interleave.total(); ++r) {
      ++taken[interleave.At(r).source];
      for (size_t i = 0; i < sizes.size(); ++i) {
        const double share = double(r + 1) * double(sizes[i]) / double(interleave.total());
        EXPECT_LE(std::abs(taken[i] - share), 1.0 + 0.5 * double(sizes.size()));
      }
    }
  }
}

TEST(Interleave, HandlesSourcesOfBillionsOfRecords) {
  const Interleave interleave({uint64_t{1} << 31, (uint64_t{1} << 31) - 1, 1});
  Rng rng(test::Seed(), {2});
  std::set<Where> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t r = rng.Below(interleave.total() - 1);
    const RecordLocation a = interleave.At(r), b = interleave.At(r + 1);
    EXPECT_NE(Where(a.source, a.index), Where(b.source, b.index));
    seen.insert({a.source, a.index});
  }
  EXPECT_GT(seen.size(), 990u);
}

TEST(Interleave, RefusesNothingAndTooMuch) {
  EXPECT_CONTAINS(test::ErrorOf([] { Interleave({0, 0}); }), "no records");
  EXPECT_CONTAINS(test::ErrorOf([] { Interleave({uint64_t{1} << 32, 1}); }), "more than");
}

TEST(Permutation, VisitsEveryNumberOnce) {
  for (uint64_t size : {1, 2, 3, 4, 5, 10, 16, 17, 64, 65, 100, 1000, 4097}) {
    const Permutation permutation(test::Seed(), 5, 0, size);
    std::vector<int> visits(size, 0);
    for (uint64_t i = 0; i < size; ++i) {
      ASSERT_LT(permutation(i), size);
      ++visits[permutation(i)];
    }
    EXPECT_EQ(visits, std::vector<int>(size, 1));
  }
}

TEST(Permutation, DiffersByEpochStreamAndSeed) {
  const auto order = [](uint64_t seed, uint64_t stream, uint64_t epoch) {
    const Permutation permutation(seed, stream, epoch, 100);
    std::vector<uint64_t> all;
    for (uint64_t i = 0; i < 100; ++i) all.push_back(permutation(i));
    return all;
  };
  const uint64_t seed = test::Seed();
  EXPECT_EQ(order(seed, 1, 0), order(seed, 1, 0));
  EXPECT_NE(order(seed, 1, 0), order(seed, 1, 1));
  EXPECT_NE(order(seed, 1, 0), order(seed, 2, 0));
  EXPECT_NE(order(seed, 1, 0), order(seed + 1, 1, 0));
}

TEST(Permutation, SendsEachPlaceEverywhereOverManyEpochs) {
  // Place 0 of 50 over 5000 epochs: the expected count of each value is 100, with standard
  // deviation 10. The limit is nine standard deviations.
  std::vector<int> visits(50, 0);
  for (uint64_t epoch = 0; epoch < 5000; ++epoch) {
    ++visits[Permutation(test::Seed(), 3, epoch, 50)(0)];
  }
  for (int count : visits) EXPECT_NEAR(count, 100, 90);
}

TEST(Schedule, SeesEachRecordOncePerEpochWhateverItsOptions) {
  for (const auto& sizes : SomeSizes()) {
    for (bool shuffle : {false, true}) {
      ScheduleOptions options;
      options.sizes = sizes;
      options.shuffle = shuffle;
      options.seed = test::Seed();
      const Schedule schedule(options);
      for (uint64_t epoch = 0; epoch < 2; ++epoch) {
        std::set<Where> seen;
        for (uint64_t i = 0; i < schedule.records(); ++i) {
          seen.insert(At(schedule, epoch * schedule.records() + i));
        }
        EXPECT_EQ(seen.size(), std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}));
      }
    }
  }
}

TEST(Schedule, RepeatsTheOrderOfTheDatabaseWithoutShuffle) {
  ScheduleOptions options;
  options.sizes = {5};
  const Schedule schedule(options);
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(At(schedule, i), Where(0, i % 5));
}

TEST(Schedule, ShufflesEachEpochAnew) {
  ScheduleOptions options;
  options.sizes = {50, 30};
  options.shuffle = true;
  options.seed = test::Seed();
  const Schedule schedule(options);
  std::vector<Where> first, second;
  for (uint64_t i = 0; i < 80; ++i) {
    first.push_back(At(schedule, i));
    second.push_back(At(schedule, 80 + i));
  }
  EXPECT_NE(first, second);
}

TEST(Schedule, GivesShardsThatPartitionTheRecords) {
  for (const auto& sizes : SomeSizes()) {
    ScheduleOptions options;
    options.sizes = sizes;
    options.shuffle = true;
    options.seed = test::Seed();
    const uint64_t total = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
    options.shard_count = std::min<uint64_t>(3, total);
    std::set<Where> seen;
    uint64_t records = 0;
    for (options.shard_index = 0; options.shard_index < options.shard_count;
         ++options.shard_index) {
      const Schedule schedule(options);
      records += schedule.records();
      for (uint64_t i = 0; i < schedule.records(); ++i) seen.insert(At(schedule, i));
    }
    EXPECT_EQ(records, total);
    EXPECT_EQ(seen.size(), total);
  }
}

TEST(Schedule, RefusesAShardWithoutRecords) {
  ScheduleOptions options;
  options.sizes = {2};
  options.shard_count = 3;
  options.shard_index = 2;
  EXPECT_CONTAINS(test::ErrorOf([&] { Schedule{options}; }),
                  "2 records, fewer than the 3 processes");
}

// ---- Absent shards ----

// Every set of absent shards that leaves at least one of `count` shards.
std::vector<std::vector<uint64_t>> AbsentSets(uint64_t count) {
  std::vector<std::vector<uint64_t>> all;
  for (uint64_t bits = 0; bits + 1 < uint64_t{1} << count; ++bits) {
    std::vector<uint64_t> absent;
    for (uint64_t shard = 0; shard < count; ++shard) {
      if (bits >> shard & 1) absent.push_back(shard);
    }
    all.push_back(absent);
  }
  return all;
}

ScheduleOptions Sharded(std::vector<uint64_t> sizes, uint64_t count, std::vector<uint64_t> absent) {
  ScheduleOptions options;
  options.sizes = std::move(sizes);
  options.shard_count = count;
  options.absent = std::move(absent);
  options.seed = test::Seed();
  return options;
}

bool Holds(const std::vector<uint64_t>& set, uint64_t shard) {
  return std::binary_search(set.begin(), set.end(), shard);
}

TEST(Schedule, ThoseThatReadShareEveryRecordOncePerEpochWhoeverIsAbsent) {
  for (const auto& sizes : std::vector<std::vector<uint64_t>>{{5}, {23}, {64}, {30, 7, 12}}) {
    const uint64_t total = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
    for (uint64_t count = 1; count <= 5; ++count) {
      for (const auto& absent : AbsentSets(count)) {
        for (const bool shuffle : {false, true}) {
          ScheduleOptions options = Sharded(sizes, count, absent);
          options.shuffle = shuffle;
          std::map<Where, int> seen;
          uint64_t least = UINT64_MAX, most = 0;
          for (uint64_t shard = 0; shard < count; ++shard) {
            if (Holds(absent, shard)) continue;
            options.shard_index = shard;
            const Schedule schedule(options);
            for (uint64_t i = 0; i < schedule.epoch_items(); ++i) {
              ++seen[At(schedule, schedule.epoch_items() + i)];  // the second epoch
            }
            least = std::min(least, schedule.epoch_items());
            most = std::max(most, schedule.epoch_items());
          }
          EXPECT_EQ(seen.size(), total);
          for (const auto& [where, times] : seen) EXPECT_EQ(times, 1);
          EXPECT_LE(most - least, 2u);  // one own record and one of the absent shards
        }
      }
    }
  }
}

TEST(Schedule, KeepsTheOrderOfItsOwnShardWhoeverIsAbsent) {
  for (const bool shuffle : {false, true}) {
    ScheduleOptions options = Sharded({50, 11}, 4, {});
    options.shard_index = 2;
    options.shuffle = shuffle;
    const Schedule alone(options);
    std::vector<Where> own;
    for (uint64_t i = 0; i < 3 * alone.records(); ++i) own.push_back(At(alone, i));
    const std::set<Where> records(own.begin(), own.end());
    for (const auto& absent : AbsentSets(4)) {
      if (Holds(absent, 2)) continue;
      options.absent = absent;
      const Schedule schedule(options);
      std::vector<Where> among;
      for (uint64_t i = 0; i < 3 * schedule.epoch_items(); ++i) {
        const Where where = At(schedule, i);
        if (records.count(where)) among.push_back(where);
      }
      EXPECT_EQ(among, own);
    }
  }
}

TEST(Schedule, GoesOnInItsOwnShardWhenTheAbsentChange) {
  ScheduleOptions options = Sharded({61}, 4, {});
  options.shard_index = 1;
  for (const auto& from : AbsentSets(4)) {
    if (Holds(from, 1)) continue;
    options.absent = from;
    const Schedule before(options);
    for (const auto& to : AbsentSets(4)) {
      if (Holds(to, 1)) continue;
      options.absent = to;
      const Schedule after(options);
      for (uint64_t place = 0; place < 2 * before.epoch_items(); ++place) {
        // The shard's next own record, and its epoch.
        const auto next_own = [](const Schedule& schedule, uint64_t at) {
          while (schedule.AtPlace(at).index % 4 != 1) ++at;
          return std::make_pair(schedule.AtPlace(at).index, at / schedule.epoch_items());
        };
        const uint64_t there = after.PlaceAfter(before, place);
        EXPECT_EQ(next_own(after, there), next_own(before, place));
        // The same fraction of the epoch, within the items of one own record.
        const double gone = double(place) / double(before.epoch_items());
        EXPECT_NEAR(double(there) / double(after.epoch_items()), gone, 1.5 / 15);
      }
    }
  }
}

TEST(Schedule, SkipsASeededNumberOfRecordsAtTheStart) {
  ScheduleOptions options;
  options.sizes = {1000};
  options.rand_skip = 100;
  std::set<uint64_t> skips;
  for (uint64_t i = 0; i < 20; ++i) {
    options.seed = test::Seed() + i;
    const Schedule schedule(options);
    EXPECT_LT(schedule.skip(), 100u);
    EXPECT_EQ(At(schedule, 0), Where(0, schedule.skip()));
    EXPECT_EQ(Schedule(options).skip(), schedule.skip());
    skips.insert(schedule.skip());
  }
  EXPECT_GT(skips.size(), 1u);
}

// ---- Groups ----

ScheduleOptions Grouped(uint64_t shard, uint64_t shards, std::vector<uint64_t> absent = {}) {
  ScheduleOptions options;
  options.groups = {7, 0, 1, 20, 13};
  options.sizes = {41};
  options.shuffle = true;
  options.shard_index = shard;
  options.shard_count = shards;
  options.absent = std::move(absent);
  options.seed = test::Seed();
  options.stream = 5 + shard;
  return options;
}

int GroupOf(uint64_t record) { return record < 7 ? 0 : record < 8 ? 2 : record < 28 ? 3 : 4; }

TEST(Schedule, ShufflesGroupsAndTheRecordsInThem) {
  const Schedule schedule(Grouped(0, 1));
  std::set<std::vector<int>> orders;
  std::set<std::vector<uint64_t>> epochs;
  for (uint64_t epoch = 0; epoch < 50; ++epoch) {
    std::vector<uint64_t> records;
    std::vector<int> groups;
    for (uint64_t i = 0; i < 41; ++i) {
      records.push_back(schedule.At(epoch * 41 + i).index);
      if (groups.empty() || groups.back() != GroupOf(records.back())) {
        groups.push_back(GroupOf(records.back()));
      }
    }
    EXPECT_EQ(std::set<uint64_t>(records.begin(), records.end()).size(), 41u);
    EXPECT_EQ(groups.size(), 4u);  // each in one piece
    orders.insert(groups);
    epochs.insert(records);
  }
  EXPECT_EQ(epochs.size(), 50u);
  EXPECT_GT(orders.size(), 12u);  // of 24
}

TEST(Schedule, ReadsEveryRecordOnceInGroupsWhateverShardsAreAbsent) {
  for (const std::vector<uint64_t>& absent : {std::vector<uint64_t>{}, {1}, {0, 2}}) {
    std::map<uint64_t, int> reads;
    for (uint64_t shard = 0; shard < 4; ++shard) {
      if (std::binary_search(absent.begin(), absent.end(), shard)) continue;
      const Schedule schedule(Grouped(shard, 4, absent));
      for (uint64_t i = 0; i < schedule.epoch_items(); ++i) ++reads[schedule.At(i).index];
    }
    EXPECT_EQ(reads.size(), 41u);
    for (const auto& [record, times] : reads) EXPECT_EQ(times, 1) << record;
  }
}

// ---- Draws ----

TEST(Schedule, DrawsFixedNumbersPerBatchFromEachSource) {
  ScheduleOptions options;
  options.sizes = {5, 3};
  options.draws = {3, 1};
  options.seed = test::Seed();
  options.stream = 9;
  const Schedule schedule(options);
  std::map<Where, int> draws;
  for (uint64_t item = 0; item < 4000; ++item) {
    EXPECT_EQ(schedule.At(item).source, item % 4 == 3 ? 1 : 0);
    ++draws[At(schedule, item)];
  }
  EXPECT_EQ(draws.size(), 8u);
  // Expected: 600 with standard deviation 22, and 333 with 15.
  for (const auto& [where, times] : draws) EXPECT_NEAR(times, where.first == 0 ? 600 : 333, 200);
  options.stream = 10;
  const Schedule other(options);
  int same = 0;
  for (uint64_t item = 0; item < 100; ++item) same += At(schedule, item) == At(other, item);
  EXPECT_LT(same, 70);  // about 23 by chance
  options.shard_count = 8;
  options.absent = {3};
  options.draws = {0, 2};
  const Schedule shard(options);
  EXPECT_EQ(shard.records(), 8u);  // each shard draws from all
  EXPECT_EQ(shard.PlaceAfter(schedule, 17), 17u);
  for (uint64_t item = 0; item < 10; ++item) EXPECT_EQ(shard.At(item).source, 1);
}

}  // namespace
}  // namespace millrace
