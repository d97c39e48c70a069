#include "cluster/start_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "cluster/sweep_estimate.h"
#include "exchange/kernels/codec_config.h"
#include "exchange/kernels/rules/default_merge_rule.h"
#include "exchange/protocol/damping.h"

namespace millrace::inline cluster {
namespace {

// N nodes that average at the whole factor of the learning rate count as learning at least
// N^kMinPower times as soon as one: 2.2, 3.3 and 4.9 for 4, 8 and 16 nodes, where the least of what
// was measured is 2.4, 3.6 and 4.8 (docs/benchmarks/learning.md).
constexpr double kMinPower = 0.57;

// Rounds to two digits, the precision of an estimate.
std::string Rounded(double value) {
  if (!(value > 0)) return "0";
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return StrCat(std::round(value / unit) * unit);
}

std::string Duration(double seconds) {
  return seconds < 1 ? Rounded(seconds * 1e3) + " ms" : Rounded(seconds) + " s";
}

// Advice by which the run has time for `exchanges` exchanges. `per_second`: iterations of the
// cluster.
// `solver_iterations`: of one solver during an exchange.
std::string Remedies(const ExpectedSegment& segment, double exchanges, double per_second,
                     double solver_iterations, bool local) {
  std::string text = segment.source == "max_mbps" ? "a higher max_mbps" : "a faster link";
  if (segment.codec == "float32") text += ", codec \"bfloat16\" or \"int8\"";
  if (segment.codec == "bfloat16") text += ", codec \"int8\"";
  if (segment.position_codec == "float32") text += ", position_codec \"bfloat16\" or \"int8\"";
  text += StrCat(", max_iter of at least ",
                 static_cast<int64_t>(std::ceil(exchanges * segment.seconds * per_second)));
  if (!local) {
    text += StrCat(
        ", strategy { type: \"local\" sync_condition { type: \"steps\" param { key: ",
        "\"every\" value: ", static_cast<int64_t>(std::max(std::ceil(solver_iterations), 1.0)),
        " } } }, which needs ", StartCheck::kMinExchangesOfLocal, " exchange");
  }
  if (segment.members > 2) text += ", fewer nodes on the segment";
  return text;
}

// Seconds of an exchange with int8 in both directions.
double Int8Seconds(const SegmentPlan& segment, int64_t floats, double megabits) {
  SegmentPlan rounded = segment;
  rounded.exchange.codec = {.codec = Codec::kInt8};
  rounded.exchange.position_codec = Codec::kInt8;
  return EstimateSweep(rounded, floats, megabits).seconds;
}

std::string Range(const ExpectedSpeedup& speedup) {
  const std::string least = Rounded(speedup.least), most = Rounded(speedup.most);
  return least == most ? most : least + " to " + most;
}

// One line of advice, or "": settings with which the nodes would learn sooner.
std::string Advice(const ExpectedSegment& segment, const ExpectedSolvers& solvers,
                   double iterations) {
  const auto members = static_cast<double>(segment.members);
  const std::string begin = StrCat("Segment ", segment.name, ": ");
  const double int8_part = segment.int8_seconds / segment.seconds;
  if (segment.scales_rate && int8_part > 0 && int8_part < 1) {
    const double now = SpeedupOf(segment, solvers, iterations).most;
    const double then = SpeedupOf(segment, solvers, iterations * int8_part).most;
    if (then > 1.1 * now) {
      return StrCat(begin, "with codec \"int8\" and position_codec \"int8\" up to ", Rounded(then),
                    " times as soon");
    }
  }
  if (segment.scales_rate && solvers.rate_factor(members, iterations) <= 1) {
    return StrCat(
        begin, "exchanges are too rare for a larger learning rate; on such links codec and ",
        "position_codec \"int4\", or \"topk\" where training could send 400 times as much, and ",
        "the merge rule \"outer\" hold the accuracy best (docs/learning.md)");
  }
  if (segment.rule != "additive" || !segment.damping) return "";
  ExpectedSegment scaled = segment;
  scaled.scales_rate =
      DefaultMergeRuleFor(static_cast<int>(segment.members), segment.alone, true).scales_rate;
  const ExpectedSpeedup now = SpeedupOf(segment, solvers, iterations);
  const ExpectedSpeedup then = SpeedupOf(scaled, solvers, iterations);
  if (then.least <= now.least) return "";
  return StrCat(begin, "with scaling: \"linear\" and without a merge rule ", Range(then),
                " times as soon");
}

}  // namespace

ExpectedSpeedup SpeedupOf(const ExpectedSegment& segment, const ExpectedSolvers& solvers,
                          double iterations) {
  const auto members = static_cast<double>(segment.members);
  if (segment.scales_rate) {
    const double factor = std::clamp(solvers.rate_factor(members, iterations), 1.0, members);
    // Beyond the limit of the factor for fresh exchanges, more nodes still have less noise: LeNet
    // learns 7.2 times as soon with 8 at four times the rate.
    const double fresh = std::clamp(solvers.rate_factor(members, members), 1.0, members);
    const double part = fresh > 1 ? (factor - 1) / (fresh - 1) : 0;
    return {1 + (std::pow(members, kMinPower) - 1) * part, 1 + (members - 1) * part};
  }
  // Damping takes the rest of a diff later, which is worth less than at once but not nothing.
  if (segment.rule == "additive" && segment.damping) {
    return {1 + (members - 1) * DampedShare(iterations, segment.members), members};
  }
  return {1, members};
}

std::vector<ExpectedSegment> ExpectSegments(const Topology& topology, const NodePlan& node,
                                            int64_t weights) {
  std::vector<ExpectedSegment> expected;
  for (const SegmentPlan& segment : node.segments) {
    const LinkRate rate = RateOf(topology, node, segment);
    const int64_t floats = RangeOf(topology.segments[segment.segment], weights).size();
    expected.push_back({segment.name, segment.peers.size() + 1, floats,
                        EstimateSweep(segment, floats, rate.megabits).seconds, rate.megabits,
                        rate.source, segment.exchange.damping, CodecName(segment.exchange.codec),
                        PositionCodecName(segment.exchange.position_codec), segment.rule.name,
                        node.segments.size() == 1, node.scales_rate,
                        Int8Seconds(segment, floats, rate.megabits)});
  }
  return expected;
}

StartCheck::StartCheck(std::vector<ExpectedSegment> segments, ExpectedSolvers solvers)
    : segments_(std::move(segments)), solvers_(solvers) {}

std::vector<std::string> StartCheck::Lines() const {
  std::vector<std::string> lines;
  for (const ExpectedSegment& segment : segments_) {
    const std::string begin = StrCat("Segment ", segment.name, ": an exchange of ", segment.weights,
                                     " weights between ", segment.members, " nodes takes ");
    lines.push_back(segment.seconds > 0
                        ? StrCat(begin, "at least ", Duration(segment.seconds), " at ",
                                 segment.megabits, " Mbit/s (", segment.source, ")")
                        : StrCat(begin,
                                 "an unknown time: neither max_mbps, nor millrace bench, nor ",
                                 "the interface says how fast the link is"));
    if (segment.position_codec == "float32") continue;
    if (segment.position_codec == "topk") {
      lines.push_back(
          StrCat("Segment ", segment.name, ": position_codec \"topk\" leaves out of a position ",
                 "what has changed less; other nodes have it later, and all of it at the end of ",
                 "the run"));
      continue;
    }
    const bool bfloat16 = segment.position_codec == "bfloat16";
    lines.push_back(StrCat(
        "Segment ", segment.name, ": position_codec \"", segment.position_codec,
        "\" rounds the weights that other nodes master by up to ",
        bfloat16                           ? "1/256 of each"
        : segment.position_codec == "int8" ? "1/254 of the largest in their chunk"
                                           : "1/14 of the largest of 16 neighbours",
        ", also in tests and snapshots before the end of the run",
        bfloat16 ? "" : "; chunks of mixed magnitude, as with BatchNorm, travel as bfloat16"));
  }
  return lines;
}

std::vector<std::string> StartCheck::Check(const StartProgress& progress) {
  const auto whole = static_cast<double>(progress.whole);
  const auto cluster = static_cast<double>(progress.cluster);
  const bool enough = progress.own >= kIterations * progress.solvers &&
                      progress.seconds >= kSeconds &&
                      (cluster >= kPart * whole || progress.seconds >= kLongSeconds);
  if (checked_ || !enough) return {};
  checked_ = true;
  const double per_second = cluster / progress.seconds;
  const double run_seconds = whole / per_second;
  std::vector<std::string> lines;
  for (const ExpectedSegment& segment : segments_) {
    if (segment.seconds <= 0) continue;
    const double iterations = per_second * segment.seconds;
    const double fewest = solvers_.local ? kMinExchangesOfLocal : kMinExchanges;
    if (run_seconds < fewest * segment.seconds) {
      const double each =
          static_cast<double>(progress.own) / progress.solvers / progress.seconds * segment.seconds;
      throw ScheduleTooShort(
          "segment ", segment.name, ": an exchange of its ", segment.weights,
          " weights takes at least ", Duration(segment.seconds), " at ", segment.megabits,
          " Mbit/s (", segment.source, "), and the whole schedule only ", Duration(run_seconds),
          ": expected time for ", fewest, fewest > 1 ? " exchanges" : " exchange",
          "; any of these helps: ", Remedies(segment, fewest, per_second, each, solvers_.local));
    }
    const bool damped = segment.damping && iterations > kFreshIterations;
    lines.push_back(StrCat("Segment ", segment.name, ": an exchange takes at least ",
                           Rounded(iterations), " iterations of the cluster",
                           damped ? "; stale progress is damped" : ""));
    if (!solvers_.local) {
      lines.back() +=
          StrCat("; its ", segment.members, " nodes are expected to learn ",
                 Range(SpeedupOf(segment, solvers_, iterations)), " times as soon as one");
      const std::string advice = Advice(segment, solvers_, iterations);
      if (!advice.empty()) lines.push_back(advice);
    }
    if (iterations > kFreshIterations && solvers_.momentum > 0 && !solvers_.look_ahead) {
      lines.push_back(StrCat("Segment ", segment.name, ": plain steps with momentum ",
                             solvers_.momentum,
                             " oscillate on weights as old as that; expected momentum_lookahead: ",
                             "true, a smaller momentum or a smaller base_lr"));
    }
  }
  return lines;
}

}  // namespace millrace::inline cluster
