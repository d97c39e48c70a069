// Which record comes when, as pure functions: no threads, no state, no files.
//
// A stream is an endless sequence of items. Item i stands in epoch
// (i + skip) / S at position (i + skip) % S, where S is the number of records in
// this process's shard; the position (permuted, if shuffled) names a record of
// the shard, the shard's records are every shard_count-th of all records, and
// all records are those of the sources, interleaved.
//
// Shards that nobody reads are dealt out: of their A records that fall to this process, a
// share proportional to the progress within its own shard comes between its own records, so an
// epoch has S + A items. The order of its own records is the same whatever is dealt out
// besides. Therefore a process that changes from one set of absent shards to another goes on where
// it was in its own shard (PlaceAfter), and in the others' at the same fraction of the epoch.
#ifndef MILLRACE_DATA_SCHEDULE_H_
#define MILLRACE_DATA_SCHEDULE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace millrace {

struct RecordLocation {
  int source = 0;      // index of the source
  uint64_t index = 0;  // of the record in it
};

// Numbers the records of several sources 0 .. total-1, in proportion to their
// sizes: the first n numbers take from each source its share of n, to within one
// record and half a record more per source. Record j of a source of s records
// stands at (2j+1)/(2s) of the way; ties go to the earlier source. Immutable.
class Interleave {
 public:
  // Throws Error when there is no record at all, or more than 2^32.
  explicit Interleave(const std::vector<uint64_t>& sizes);

  uint64_t total() const { return total_; }
  // 0 <= number < total().
  RecordLocation At(uint64_t number) const;
  // The number of record `index` of `source`, which is below its size.
  uint64_t Rank(size_t source, uint64_t index) const;

 private:
  std::vector<uint64_t> sizes_;
  uint64_t total_ = 0;
};

// A pseudo-random order of {0, ..., size-1} that needs no memory: a Feistel
// network over the next power of four, walked until it lands inside (Black and
// Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002). Immutable.
class Permutation {
 public:
  Permutation(uint64_t seed, uint64_t stream, uint64_t epoch, uint64_t size);
  uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int kRounds = 6;

  uint64_t size_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

// The records of absent shards that fall to one of the shards that are read: every k-th of them,
// in the order of all records, where k shards are read. For every set of absent shards, each of
// their records falls to exactly one of the others. Immutable.
class Dealt {
 public:
  // `absent` is ascending, below `shard_count`, and without `shard_index`; `total` records of all
  // shards.
  Dealt(std::vector<uint64_t> absent, uint64_t shard_index, uint64_t shard_count, uint64_t total);

  uint64_t records() const { return records_; }
  // The number among all records of the one at `position`, below records().
  uint64_t At(uint64_t position) const;

 private:
  std::vector<uint64_t> absent_;
  uint64_t shard_count_, readers_;
  uint64_t rank_ = 0;  // of this shard among those that are read
  uint64_t records_ = 0;
};

// Records r of `total` with r % shard_count == shard.
uint64_t ShardRecords(uint64_t shard, uint64_t shard_count, uint64_t total);

struct ScheduleOptions {
  std::vector<uint64_t> sizes;  // records of each source
  uint64_t shard_index = 0, shard_count = 1;
  std::vector<uint64_t> absent;  // shards that nobody reads; see Dealt
  bool shuffle = false;
  uint64_t rand_skip = 0;  // skip a number of records drawn from below this
  uint64_t seed = 0;       // names the random choices, with
  uint64_t stream = 0;     // which stream this is
};

// Immutable, thread-safe.
class Schedule {
 public:
  // Throws Error when this shard has no records.
  explicit Schedule(const ScheduleOptions& options);

  // In the shard.
  uint64_t records() const { return records_; }
  // The length of an epoch: the shard's records and those of absent shards that fall to it.
  uint64_t epoch_items() const { return epoch_items_; }
  uint64_t skip() const { return skip_; }
  RecordLocation At(uint64_t item) const { return AtPlace(item + skip_); }
  // A place counts items from the start of epoch 0.
  RecordLocation AtPlace(uint64_t place) const;
  // Where a process goes on that comes from `place` of `before`, a schedule of the same shard with
  // other absent ones: at the same record of its shard.
  uint64_t PlaceAfter(const Schedule& before, uint64_t place) const;
  const std::vector<uint64_t>& absent() const { return options_.absent; }

 private:
  const ScheduleOptions options_;
  const Interleave interleave_;
  uint64_t records_ = 0, epoch_items_ = 0;
  uint64_t skip_ = 0;
  std::optional<Dealt> dealt_;     // null: nothing falls to this shard
  std::optional<Interleave> mix_;  // of the shard's records (0) and those (1)
};

}  // namespace millrace

#endif  // MILLRACE_DATA_SCHEDULE_H_
