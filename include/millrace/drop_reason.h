// Why a component of a segment drops or refuses a frame, and counts of that. The only list of these
// reasons; metrics, logs, `millrace bench` and docs/operations.md name them as it does.
#ifndef MILLRACE_DROP_REASON_H_
#define MILLRACE_DROP_REASON_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "millrace/counter.h"
#include "millrace/export.h"

namespace millrace {

// kNone: accepted. DropReasonHelp describes the others.
enum class DropReason : uint8_t {
  // clang-format off
  kNone, kShort, kLength, kMagic, kChecksum, kVersion, kField, kRun, kDestination, kIncarnation,
  kStranger, kSelf, kSourceMismatch, kNoSession, kNoKey, kForeignKey, kBadTag, kReplayed,
  kUnauthenticated, kDiffers, kView, kChunk, kNotMaster, kOld, kNonFinite, kPayload, kBeingRead,
  kBusy, kTooLong, kNoSuchNode, kUnreachable, kFailed, kOverrun, kMalformed, kBadChecksum,
  kUnknownSender, kCount
  // clang-format on
};
inline constexpr size_t kDropReasons = static_cast<size_t>(DropReason::kCount);

// "not_master", "bad_tag", ...; "none" for kNone.
MILLRACE_API const char* DropReasonName(DropReason reason);
// What is wrong with the frame, in a few words.
MILLRACE_API const char* DropReasonHelp(DropReason reason);

// Frames by reason. Frames for kNone are accepted: they count by reason, but not in the total.
class DropCounts {
 public:
  void Add(DropReason reason, uint64_t frames = 1) {
    counts_[static_cast<size_t>(reason)] += frames;
    if (reason != DropReason::kNone) total_ += frames;
  }
  uint64_t operator[](DropReason reason) const { return counts_[static_cast<size_t>(reason)]; }
  // Dropped frames, over all reasons.
  uint64_t total() const { return total_; }

  DropCounts& operator+=(const DropCounts& other) {
    for (size_t i = 0; i < kDropReasons; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    return *this;
  }
  bool operator==(const DropCounts&) const = default;

 private:
  std::array<uint64_t, kDropReasons> counts_{};
  uint64_t total_ = 0;
};

// The same with a single writer thread. Any thread may read it at any time.
class DropCounters {
 public:
  void Add(DropReason reason, uint64_t frames = 1) {
    counts_[static_cast<size_t>(reason)].Add(frames);
    total_.Add(frames);
  }
  uint64_t operator[](DropReason reason) const {
    return counts_[static_cast<size_t>(reason)].Read();
  }
  uint64_t total() const { return total_.Read(); }
  DropCounts Read() const {
    DropCounts counts;
    for (size_t i = 0; i < kDropReasons; ++i) {
      counts.Add(static_cast<DropReason>(i), counts_[i].Read());
    }
    return counts;
  }

 private:
  std::array<Counter, kDropReasons> counts_;
  Counter total_;
};

}  // namespace millrace

#endif  // MILLRACE_DROP_REASON_H_
