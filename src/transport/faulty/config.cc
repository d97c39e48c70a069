// Parses the options of `faulty` and passes the others to the inner transport.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/parse.h"
#include "millrace/transport_registry.h"
#include "transport/faulty/transport.h"

namespace millrace::inline transport {
namespace {

double* RateOf(FaultRates* rates, const std::string& fault) {
  if (fault == "drop") return &rates->drop;
  if (fault == "duplicate") return &rates->duplicate;
  if (fault == "reorder") return &rates->reorder;
  if (fault == "delay") return &rates->delay;
  if (fault == "truncate") return &rates->truncate;
  if (fault == "corrupt") return &rates->corrupt;
  return nullptr;
}

std::vector<std::string> SplitAtDots(const std::string& key) {
  std::vector<std::string> parts(1);
  for (char c : key) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Sets the rate that `parts` of an option key name. Returns false if they name no rate.
bool SetRate(const std::vector<std::string>& parts, double rate, FaultPlan* plan) {
  FaultRates unused;
  if (!RateOf(&unused, parts.back())) return false;
  if (parts.size() == 1) {
    *RateOf(&plan->send, parts[0]) = *RateOf(&plan->receive, parts[0]) = rate;
    return true;
  }
  const bool send = parts[0] == "send";
  if (!send && parts[0] != "receive") return false;
  FaultRates& of_direction = send ? plan->send : plan->receive;
  if (parts.size() == 2) {
    *RateOf(&of_direction, parts[1]) = rate;
    return true;
  }
  const auto peer = ParseNumber<NodeId>(parts[1]);
  if (parts.size() != 3 || !peer) return false;
  auto& by_peer = send ? plan->send_peer : plan->receive_peer;
  *RateOf(&by_peer.emplace(*peer, of_direction).first->second, parts[2]) = rate;
  return true;
}

// Reads the rates from the options of `config`, the least specific first, and removes them from
// those of `inner`.
void ReadRates(const TransportConfig& config, FaultPlan* plan, TransportConfig* inner) {
  for (size_t precision = 1; precision <= 3; ++precision) {
    for (const auto& [key, value] : config.options) {
      const std::vector<std::string> parts = SplitAtDots(key);
      FaultRates unused;
      const bool directed = parts[0] == "send" || parts[0] == "receive";
      if (parts.size() != precision || !(directed || RateOf(&unused, key))) continue;
      if (!SetRate(parts, config.Number(key, 0, 0, 1), plan)) {
        throw Error("transport faulty: unknown option ", key,
                    ": expected drop, duplicate, reorder, delay, truncate or corrupt, with "
                    "send., receive., send.PEER. or receive.PEER. before it");
      }
      inner->options.erase(key);
    }
  }
}

}  // namespace

std::unique_ptr<Transport> MakeFaulty(const TransportConfig& config) {
  constexpr int64_t kHourUs = 3'600'000'000;
  TransportConfig inner = config;
  inner.transport = config.Text("over");
  if (inner.transport == "faulty") {
    throw Error("transport faulty: over=faulty: expected another transport");
  }
  FaultPlan plan;
  plan.clock = config.clock;
  plan.seed = config.Int("seed", 1, 0, INT64_MAX);
  plan.delay_max_ns = 1000 * config.Int("delay_max_us", 1000, 0, kHourUs);
  plan.delay_min_ns = 1000 * config.Int("delay_min_us", 0, 0, plan.delay_max_ns / 1000);
  plan.reorder_frames = config.Int("reorder_frames", plan.reorder_frames, 1, 1 << 16);
  plan.hold_frames = config.Int("hold_frames", plan.hold_frames, 1, 1 << 16);
  for (const char* own :
       {"over", "seed", "delay_max_us", "delay_min_us", "reorder_frames", "hold_frames"}) {
    inner.options.erase(own);
  }
  ReadRates(config, &plan, &inner);
  return std::make_unique<FaultyTransport>(TransportRegistry::Get().Create(inner), plan);
}

}  // namespace millrace::inline transport
