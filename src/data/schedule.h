// Which record comes when, as pure functions: no threads, no state, no files.
//
// A stream is an endless sequence of items. Item i stands in epoch
// (i + skip) / S at position (i + skip) % S, where S is the number of records in
// this process's shard; the position (permuted, if shuffled) names a record of
// the shard, the shard's records are every shard_count-th of all records, and
// all records are those of the sources, interleaved.
#ifndef MILLRACE_DATA_SCHEDULE_H_
#define MILLRACE_DATA_SCHEDULE_H_

#include <array>
#include <cstddef>
#include <cstdint>
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

 private:
  // The number of record `index` of `source`.
  uint64_t Rank(size_t source, uint64_t index) const;

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

struct ScheduleOptions {
  std::vector<uint64_t> sizes;  // records of each source
  uint64_t shard_index = 0, shard_count = 1;
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

  // In the shard: the length of an epoch.
  uint64_t records() const { return records_; }
  uint64_t skip() const { return skip_; }
  RecordLocation At(uint64_t item) const;

 private:
  const ScheduleOptions options_;
  const Interleave interleave_;
  uint64_t records_ = 0;
  uint64_t skip_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_DATA_SCHEDULE_H_
