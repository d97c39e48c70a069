#include "data/schedule.h"

#include <glog/logging.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/rng.h"

namespace millrace::inline data {

Interleave::Interleave(const std::vector<uint64_t>& sizes) : sizes_(sizes) {
  // Products of two sizes must fit in 64 bits (see Rank).
  constexpr uint64_t kMax = uint64_t{1} << 32;
  for (uint64_t size : sizes_) {
    if (size > kMax || (total_ += size) > kMax) {
      throw Error("the sources hold more than ", kMax, " records, which is not supported");
    }
  }
  if (total_ == 0) throw Error("the sources hold no records");
}

uint64_t Interleave::Rank(size_t source, uint64_t index) const {
  uint64_t rank = index;
  for (size_t other = 0; other < sizes_.size(); ++other) {
    if (other == source) continue;
    // Counts the records j of `other` with (2j+1)/(2 s_other) before (2 index+1)/(2 s_source): the
    // odd numbers 2j+1 up to (2 index+1) s_other / s_source. The product is below
    //   2 s_other s_source <= (s_other + s_source)^2 / 2 <= 2^63.
    const uint64_t product = (2 * index + 1) * sizes_[other];
    const uint64_t tie_is_mine = other > source ? 1 : 0;
    if (product < tie_is_mine) continue;  // `other` is empty
    rank += ((product - tie_is_mine) / sizes_[source] + 1) / 2;
  }
  return rank;
}

RecordLocation Interleave::At(uint64_t number) const {
  if (sizes_.size() == 1) return {0, number};
  // A source has its share of the first `number` records to within half a record per source plus
  // one half (rounding). One more is a safety margin.
  const uint64_t slack = sizes_.size() + 1;
  for (size_t source = 0; source < sizes_.size(); ++source) {
    const uint64_t size = sizes_[source];
    const uint64_t share = number * size / total_;
    uint64_t low = share > slack ? share - slack : 0;
    uint64_t high = std::min(share + slack + 1, size);
    while (low < high) {  // the first index whose rank is at least `number`
      const uint64_t middle = (low + high) / 2;
      if (Rank(source, middle) < number) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low < size && Rank(source, low) == number) return {static_cast<int>(source), low};
  }
  LOG(FATAL) << "record " << number << " of " << total_ << " belongs to no source";
  return {};
}

Permutation::Permutation(uint64_t seed, uint64_t stream, uint64_t epoch, uint64_t size)
    : size_(size), half_bits_(std::max(1, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2)) {
  Rng rng(seed, {kRngShuffle, stream, epoch});
  for (uint64_t& key : keys_) key = rng.Next64();
}

uint64_t Permutation::operator()(uint64_t i) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = i >> half_bits_, right = i & mask;
    for (uint64_t key : keys_) {
      uint64_t mixed = (right + key) * 0x9e3779b97f4a7c15ULL;
      mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93ULL;
      const uint64_t next = left ^ ((mixed >> 32) & mask);
      left = right;
      right = next;
    }
    i = left << half_bits_ | right;
  } while (i >= size_);
  return i;
}

uint64_t GroupedPermutation::At(uint64_t seed, uint64_t stream, uint64_t epoch,
                                uint64_t position) const {
  const uint64_t groups = bounds_.size() - 1;
  const Permutation order(seed, stream, epoch, groups);
  for (uint64_t i = 0; i < groups; ++i) {
    const uint64_t group = order(i);
    const uint64_t size = bounds_[group + 1] - bounds_[group];
    if (position < size) {
      // A key of its own: groups of one size have different orders.
      const uint64_t key = stream ^ (group + 1) * 0xd6e8feb86659fd93;
      return bounds_[group] + Permutation(seed, key, epoch, size)(position);
    }
    position -= size;
  }
  LOG(FATAL) << "position " << position << " is beyond the last group";
  return 0;
}

uint64_t ShardRecords(uint64_t shard, uint64_t shard_count, uint64_t total) {
  return shard < total ? (total - shard - 1) / shard_count + 1 : 0;
}

TakeoverRecords::TakeoverRecords(std::vector<uint64_t> absent, uint64_t shard_index,
                                 uint64_t shard_count, uint64_t total)
    : absent_(std::move(absent)),
      shard_count_(shard_count),
      readers_(shard_count - absent_.size()) {
  CHECK(std::is_sorted(absent_.begin(), absent_.end()));
  CHECK(!std::binary_search(absent_.begin(), absent_.end(), shard_index));
  uint64_t all = 0;
  for (const uint64_t shard : absent_) {
    CHECK_LT(shard, shard_count);
    all += ShardRecords(shard, shard_count, total);
    if (shard < shard_index) ++rank_;
  }
  rank_ = shard_index - rank_;
  records_ = ShardRecords(rank_, readers_, all);
}

uint64_t TakeoverRecords::At(uint64_t position) const {
  // `number` counts the absent shards' records in the order of all records. The last block of
  // shard_count records may be incomplete.
  const uint64_t number = position * readers_ + rank_;
  return number / absent_.size() * shard_count_ + absent_[number % absent_.size()];
}

Schedule::Schedule(const ScheduleOptions& options) : options_(options), interleave_(options.sizes) {
  CHECK_LT(options.shard_index, options.shard_count);
  const uint64_t total = interleave_.total();
  for (const uint64_t draws : options.draws) batch_draws_ += draws;
  if (batch_draws_ > 0) {
    CHECK_EQ(options.draws.size(), options.sizes.size());
    records_ = epoch_items_ = total;
    return;
  }
  items_ = std::max(options.items, total);
  records_ = ShardRecords(options.shard_index, options.shard_count, items_);
  if (records_ == 0) {
    throw Error("the sources hold ", total, " records, fewer than the ", options.shard_count,
                " processes that share them");
  }
  if (!options.absent.empty()) {
    takeover_.emplace(options.absent, options.shard_index, options.shard_count, items_);
    if (takeover_->records() == 0) takeover_.reset();
  }
  if (takeover_) mix_.emplace(std::vector<uint64_t>{records_, takeover_->records()});
  epoch_items_ = mix_ ? mix_->total() : records_;
  if (options.rand_skip > 0) {
    skip_ = Rng(options.seed, {kRngSkip, options.stream}).Below(options.rand_skip);
  }
  if (options.shuffle && options.groups.size() > 1) {
    own_groups_.emplace(GroupsOf(true, records_));
    if (takeover_) dealt_groups_.emplace(GroupsOf(false, takeover_->records()));
  }
}

uint64_t Schedule::NumberOf(bool own, uint64_t position) const {
  return own ? position * options_.shard_count + options_.shard_index : takeover_->At(position);
}

// The positions ascend with the records' numbers, so each group is a range of positions.
GroupedPermutation Schedule::GroupsOf(bool own, uint64_t size) const {
  std::vector<uint64_t> bounds = {0};
  uint64_t end = 0;
  for (const uint64_t records : options_.groups) {
    end += records;
    uint64_t low = bounds.back(), high = size;
    while (low < high) {  // the first position whose record is not below `end`
      const uint64_t middle = (low + high) / 2;
      if (NumberOf(own, middle) < end) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    bounds.push_back(low);
  }
  CHECK_EQ(bounds.back(), size);
  return GroupedPermutation(std::move(bounds));
}

RecordLocation Schedule::Draw(uint64_t place) const {
  Rng rng(options_.seed, {kRngShuffle, options_.stream, place});
  uint64_t at = place % batch_draws_;
  int source = 0;
  while (at >= options_.draws[source]) at -= options_.draws[source++];
  return {source, rng.Below(options_.sizes[source])};
}

RecordLocation Schedule::AtPlace(uint64_t place) const {
  if (batch_draws_ > 0) return Draw(place);
  const uint64_t epoch = place / epoch_items_;
  RecordLocation item{0, place % epoch_items_};
  if (mix_) item = mix_->At(item.index);
  const bool own = item.source == 0;
  uint64_t position = item.index;
  if (options_.shuffle) {
    // The absent shards' records have a permutation of their own, so that the order of the shard's
    // own records does not change.
    constexpr uint64_t kOthers = 0x9e3779b97f4a7c15;
    const uint64_t stream = own ? options_.stream : options_.stream ^ kOthers;
    const uint64_t size = own ? records_ : takeover_->records();
    const auto& groups = own ? own_groups_ : dealt_groups_;
    position = groups ? groups->At(options_.seed, stream, epoch, position)
                      : Permutation(options_.seed, stream, epoch, size)(position);
  }
  const uint64_t number = NumberOf(own, position);
  if (!options_.sampler) {
    if (items_ == interleave_.total()) return interleave_.At(number);
    return interleave_.At((epoch * items_ + number) % interleave_.total());
  }
  const uint64_t record = options_.sampler->Record(epoch, number);
  if (record >= interleave_.total()) {
    throw Error("the sampler gives record ", record, ", expected one below ", interleave_.total());
  }
  return interleave_.At(record);
}

uint64_t Schedule::PlaceAfter(const Schedule& before, uint64_t place) const {
  CHECK_EQ(records_, before.records_);
  if (batch_draws_ > 0) return place;
  const uint64_t epoch = place / before.epoch_items_;
  uint64_t own = place % before.epoch_items_;  // number of the shard's own records before `place`
  if (before.mix_) {
    const RecordLocation item = before.mix_->At(own);
    own = item.source == 0 ? item.index : own - item.index;
  }
  if (own == records_) return (epoch + 1) * epoch_items_;
  return epoch * epoch_items_ + (mix_ ? mix_->Rank(0, own) : own);
}

}  // namespace millrace::inline data
