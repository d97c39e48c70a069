#include "segment/meters.h"

#include <numeric>

#include "base/error.h"
#include "exchange/frame.h"

namespace millrace {
namespace {

// " name n" if there were any.
std::string Part(const std::string& name, uint64_t count) {
  return count == 0 ? "" : Cat(" ", name, " ", count);
}

}  // namespace

std::string SummaryOf(const SegmentMeters& meters, const TransportCounters& counters) {
  const ExchangeStats stats = meters.exchange();
  const auto sum = [](const auto& counts) {
    return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  };
  std::string dropped;
  for (size_t i = 0; i < stats.drops.size(); ++i) {
    dropped += Part(DropName(static_cast<Drop>(i)), stats.drops[i]);
  }
  for (size_t i = 0; i < std::tuple_size_v<GateDrops>; ++i) {
    const auto drop = static_cast<GateDrop>(i);
    dropped += Part(GateDropName(drop), meters.gate_drops(drop));
  }
  for (size_t i = 1; i < std::tuple_size_v<BulletinDrops>; ++i) {
    const auto drop = static_cast<BulletinDrop>(i);
    dropped += Part(Cat("bulletin_", BulletinDropName(drop)), meters.bulletin_drops(drop));
  }
  for (size_t i = 0; i < kDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    dropped += Part(DropReasonName(reason), counters.dropped(reason));
  }
  return Cat(sum(stats.sent), " frames out, ", sum(stats.received), " in, ", stats.positions_taken,
             " positions taken, ", stats.diffs_merged, " differences merged, ", stats.resends,
             " resent, ", stats.takeovers,
             " chunks taken over; dropped:", dropped.empty() ? " nothing" : dropped);
}

}  // namespace millrace
