// The order of the records, as pure functions: no threads, no state, no files.
//
// A stream is an endless sequence of items. Item i has place p = i + skip: it is in epoch p / S at
// position p % S, where S is the number of records in this process's shard. The position (permuted,
// if shuffled) selects a record of the shard. A shard has every shard_count-th of all records. All
// records are those of the sources, interleaved.
//
// The records of absent shards, which have no reader, are distributed over the other shards. Let A
// of them be assigned to this process. It interleaves them with its own records in proportion, so
// that an epoch has S + A items. The order of its own records does not depend on the absent shards.
// When the set of absent shards changes, a process therefore continues at the same record of its
// own shard (PlaceAfter), and at the same fraction of the epoch in the absent ones.
//
// A sampler (sampler.h) may give the numbers 0 .. total-1 to other records in each epoch.
//
// A layer that has fewer records than another one of its net begins again when it has come to its
// end, as in Caffe. So that its records stay beside the same records of the other layer in every
// shard, an epoch can have more items than there are records.
//
// Two other orders exist. With `groups`, successive records form groups (the rows of a file): a
// shuffled epoch visits the groups in random order, and the records of each group in random order
// before the next group. With `draws`, records are drawn at random, with replacement, in fixed
// numbers per batch from each source; every process draws from all records.
#ifndef MILLRACE_DATA_SCHEDULE_H_
#define MILLRACE_DATA_SCHEDULE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/sampler.h"

namespace millrace::inline data {

struct RecordLocation {
  int source = 0;      // index of the source
  uint64_t index = 0;  // of the record in the source
};

// Numbers the records of several sources 0 .. total-1, in proportion to their sizes. The first n
// numbers take from each source its share of n, to within one record plus half a record per source.
// Record j of a source of s records is at the fraction (2j+1)/(2s) of the sequence; ties go to the
// earlier source. Immutable.
class Interleave {
 public:
  // Throws Error if there are no records, or more than 2^32.
  explicit Interleave(const std::vector<uint64_t>& sizes);

  uint64_t total() const { return total_; }
  // 0 <= number < total().
  RecordLocation At(uint64_t number) const;
  // The number of record `index` of `source`; `index` is below the source's size.
  uint64_t Rank(size_t source, uint64_t index) const;

 private:
  std::vector<uint64_t> sizes_;
  uint64_t total_ = 0;
};

// A pseudo-random order of {0, ..., size-1} that needs no memory: a Feistel network over the next
// power of four, repeated until the result is below size (Black and Rogaway, "Ciphers with
// Arbitrary Finite Domains", CT-RSA 2002). Immutable.
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

// The records of absent shards that are assigned to one shard with a reader. With k such shards it
// gets every k-th of these records, in the order of all records. For every set of absent shards,
// each of their records is assigned to exactly one other shard. Immutable.
class TakeoverRecords {
 public:
  // `absent` is ascending, below `shard_count`, and without `shard_index`. `total` is the number of
  // records of all shards.
  TakeoverRecords(std::vector<uint64_t> absent, uint64_t shard_index, uint64_t shard_count,
                  uint64_t total);

  uint64_t records() const { return records_; }
  // The number, among all records, of the record at `position`, which is below records().
  uint64_t At(uint64_t position) const;

 private:
  std::vector<uint64_t> absent_;
  uint64_t shard_count_, readers_;
  uint64_t rank_ = 0;  // of this shard among those with a reader
  uint64_t records_ = 0;
};

// The number of records r below `total` with r % shard_count == shard.
uint64_t ShardRecords(uint64_t shard, uint64_t shard_count, uint64_t total);

// A pseudo-random order of the positions {0, ..., size-1} of a sequence that consists of groups:
// the groups in random order, each in random order inside. Immutable. Takes time proportional to
// the number of groups.
class GroupedPermutation {
 public:
  // Group g has the positions bounds[g] <= position < bounds[g+1]; bounds[0] is 0.
  explicit GroupedPermutation(std::vector<uint64_t> bounds) : bounds_(std::move(bounds)) {}

  uint64_t At(uint64_t seed, uint64_t stream, uint64_t epoch, uint64_t position) const;

 private:
  const std::vector<uint64_t> bounds_;
};

struct ScheduleOptions {
  std::vector<uint64_t> sizes;  // records of each source
  uint64_t shard_index = 0, shard_count = 1;
  std::vector<uint64_t> absent;  // shards without a reader; see TakeoverRecords
  bool shuffle = false;
  // Numbers of successive records that `shuffle` keeps together; for one source. Empty: none.
  std::vector<uint64_t> groups;
  // Items that each batch draws from each source, in the order of the sources. Empty: the items are
  // all records in turn.
  std::vector<uint64_t> draws;
  // Gives the records their numbers in each epoch; null: the sources' order. Not with `groups` or
  // `draws`.
  std::shared_ptr<const Sampler> sampler = nullptr;
  // Items of an epoch over all shards, at least the number of records: item n of epoch e is record
  // (e * items + n) % records. 0: as many as records. Not with `shuffle`, `draws` or a sampler.
  uint64_t items = 0;
  uint64_t rand_skip = 0;  // skip a random number of records below this
  uint64_t seed = 0;       // part of the key of the random choices
  uint64_t stream = 0;     // identifies the stream; also part of that key
};

// Immutable, thread-safe.
class Schedule {
 public:
  // Throws Error if this shard has no records.
  explicit Schedule(const ScheduleOptions& options);

  // Records in the shard; with `draws`, all; with `items`, so many items as an epoch has in it.
  uint64_t records() const { return records_; }
  // The length of an epoch: the shard's records and the records of absent shards assigned to it.
  uint64_t epoch_items() const { return epoch_items_; }
  uint64_t skip() const { return skip_; }
  RecordLocation At(uint64_t item) const { return AtPlace(item + skip_); }
  // A place counts items from the start of epoch 0.
  RecordLocation AtPlace(uint64_t place) const;
  // Maps `place` of `before`, a schedule of the same shard with other absent shards, to the place
  // of the same record of this shard.
  uint64_t PlaceAfter(const Schedule& before, uint64_t place) const;
  const std::vector<uint64_t>& absent() const { return options_.absent; }

 private:
  RecordLocation Draw(uint64_t place) const;
  // The record, among all, at a position of the shard's own records or of those of takeover_.
  uint64_t NumberOf(bool own, uint64_t position) const;
  GroupedPermutation GroupsOf(bool own, uint64_t size) const;

  const ScheduleOptions options_;
  const Interleave interleave_;
  uint64_t items_ = 0;  // of an epoch over all shards
  uint64_t records_ = 0, epoch_items_ = 0;
  uint64_t batch_draws_ = 0;  // the sum of the draws
  uint64_t skip_ = 0;
  std::optional<TakeoverRecords> takeover_;  // empty: no records of absent shards
  std::optional<Interleave> mix_;  // of the shard's own records (0) and those of takeover_ (1)
  // The orders of own records and of those of takeover_, if shuffled in groups.
  std::optional<GroupedPermutation> own_groups_, dealt_groups_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_SCHEDULE_H_
