#include "cluster/start_check.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "cluster/sweep_estimate.h"

namespace millrace::inline cluster {
namespace {

// Rounds to two digits, the precision of an estimate.
std::string Rounded(double value) {
  if (!(value > 0)) return "0";
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return StrCat(std::round(value / unit) * unit);
}

std::string Duration(double seconds) {
  return seconds < 1 ? Rounded(seconds * 1e3) + " ms" : Rounded(seconds) + " s";
}

}  // namespace

StartCheck::StartCheck(std::vector<ExpectedSegment> segments, double momentum)
    : segments_(std::move(segments)), momentum_(momentum) {}

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
  }
  return lines;
}

std::vector<std::string> StartCheck::Check(int solvers, int64_t own, double seconds,
                                           int64_t whole) {
  if (checked_ || own < kIterations * solvers || seconds < kSeconds) return {};
  checked_ = true;
  std::vector<std::string> lines;
  for (const ExpectedSegment& segment : segments_) {
    if (segment.seconds <= 0) continue;
    // Assumes that all nodes are as fast as this one.
    const double per_second =
        static_cast<double>(own) / seconds * static_cast<double>(segment.members);
    const double iterations = per_second * segment.seconds;
    const double run_seconds = static_cast<double>(whole) / per_second;
    if (run_seconds < kFewestExchanges * segment.seconds) {
      throw Error("segment ", segment.name, ": an exchange of its ", segment.weights,
                  " weights takes at least ", Duration(segment.seconds), " at ", segment.megabits,
                  " Mbit/s (", segment.source, "), and the run only ", Duration(run_seconds),
                  ": expected time for ", kFewestExchanges,
                  " exchanges; raise max_mbps, use a faster link, codec \"bfloat16\" or \"int8\", ",
                  "fewer nodes, or a larger max_iter");
    }
    lines.push_back(StrCat("Segment ", segment.name, ": an exchange takes at least ",
                           Rounded(iterations), " iterations of the cluster",
                           iterations > kFreshExchange ? "; stale progress is damped" : ""));
    if (iterations > kFreshExchange && momentum_ > 0) {
      lines.push_back(StrCat("Segment ", segment.name, ": plain steps with momentum ", momentum_,
                             " oscillate on weights as old as that; expected momentum_lookahead: ",
                             "true, a smaller momentum or a smaller base_lr"));
    }
  }
  return lines;
}

}  // namespace millrace::inline cluster
