// What a segment counts, for those who watch: published by its thread after each
// pass, read from any thread. Each number is exact; two need not be of one instant.
#ifndef MILLRACE_SEGMENT_METERS_H_
#define MILLRACE_SEGMENT_METERS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <tuple>

#include "exchange/exchange_config.h"
#include "segment/bulletin_frame.h"
#include "segment/gate.h"

namespace millrace {

class SegmentMeters {
 public:
  // All as of the same pass, but not read in one instant.
  ExchangeStats exchange() const {
    ExchangeStats stats;
    Visit(stats, [](uint64_t* value, const std::atomic<uint64_t>& slot) {
      *value = slot.load(std::memory_order_relaxed);
    });
    return stats;
  }
  // Frames that did not get in.
  uint64_t gate_drops(GateDrop drop) const {
    return gate_drops_[static_cast<size_t>(drop)].load(std::memory_order_relaxed);
  }
  // Frames of bulletins that were refused, by reason.
  uint64_t bulletin_drops(BulletinDrop drop) const {
    return bulletin_drops_[static_cast<size_t>(drop)].load(std::memory_order_relaxed);
  }
  // Passes made, and those of them that found nothing to do.
  uint64_t passes() const { return passes_.load(std::memory_order_relaxed); }
  uint64_t idle_passes() const { return idle_passes_.load(std::memory_order_relaxed); }
  // Bytes that were put on the wire, as `max_rate` counts them.
  uint64_t wire_bytes() const { return wire_bytes_.load(std::memory_order_relaxed); }

  // For the segment's own thread.
  void Publish(const ExchangeStats& stats) {
    Visit(stats, [](const uint64_t* value, std::atomic<uint64_t>& slot) {
      slot.store(*value, std::memory_order_relaxed);
    });
  }
  void Publish(const GateDrops& drops) {
    for (size_t i = 0; i < drops.size(); ++i) {
      gate_drops_[i].store(drops[i], std::memory_order_relaxed);
    }
  }
  void Publish(const BulletinDrops& drops) {
    for (size_t i = 0; i < drops.size(); ++i) {
      bulletin_drops_[i].store(drops[i], std::memory_order_relaxed);
    }
  }
  void Passed(bool idle) {
    Add(&passes_, 1);
    if (idle) Add(&idle_passes_, 1);
  }
  void AddWireBytes(uint64_t bytes) { Add(&wire_bytes_, bytes); }

 private:
  static constexpr size_t kDrops = static_cast<size_t>(Drop::kCount);
  static constexpr size_t kSlots = 16 + 16 + kDrops + 9;

  static void Add(std::atomic<uint64_t>* count, uint64_t n) {
    count->store(count->load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  // each(&number, slot) of every number in `stats`.
  template <typename Stats, typename Each>
  void Visit(Stats& stats, Each each) const {
    VisitSlots(stats, slots_, each);
  }
  template <typename Stats, typename Each>
  void Visit(Stats& stats, Each each) {
    VisitSlots(stats, slots_, each);
  }
  template <typename Stats, typename Slots, typename Each>
  static void VisitSlots(Stats& stats, Slots& slots, Each each) {
    size_t next = 0;
    for (auto& value : stats.sent) each(&value, slots[next++]);
    for (auto& value : stats.received) each(&value, slots[next++]);
    for (auto& value : stats.drops) each(&value, slots[next++]);
    for (auto* value :
         {&stats.bytes_sent, &stats.bytes_received, &stats.positions_taken, &stats.diffs_taken,
          &stats.diffs_merged, &stats.resends, &stats.repeats, &stats.takeovers, &stats.resets}) {
      each(value, slots[next++]);
    }
  }

  std::array<std::atomic<uint64_t>, kSlots> slots_{};
  std::array<std::atomic<uint64_t>, std::tuple_size_v<GateDrops>> gate_drops_{};
  std::array<std::atomic<uint64_t>, std::tuple_size_v<BulletinDrops>> bulletin_drops_{};
  std::atomic<uint64_t> passes_{0}, idle_passes_{0}, wire_bytes_{0};
};

// One line: what went out and came in, and what was dropped by which reason.
std::string SummaryOf(const SegmentMeters& meters, const TransportCounters& counters);

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_METERS_H_
