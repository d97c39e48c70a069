#include "control/health.h"

#include <algorithm>

namespace millrace::inline control {
namespace {

std::string LabelOf(const MetricsReading::Metric& metric, const std::string& name) {
  for (const auto& [key, value] : metric.labels) {
    if (key == name) return value;
  }
  return "";
}

}  // namespace

void HealthMonitor::Add(double seconds, const MetricsReading& reading, bool trains) {
  Sample sample{.seconds = seconds, .trains = trains};
  for (const MetricsReading::Metric& metric : reading.metrics) {
    sample.values[{reading.families[metric.family].name, LabelOf(metric, "segment"),
                   LabelOf(metric, "peer")}] += metric.value;
  }
  samples_.push_back(std::move(sample));
  while (samples_.size() > 2 && samples_[1].seconds <= seconds - kWindowSeconds) {
    samples_.pop_front();
  }
}

double HealthMonitor::Now(const Key& key) const {
  const auto found = samples_.back().values.find(key);
  return found == samples_.back().values.end() ? 0 : found->second;
}

double HealthMonitor::Increase(const Key& key) const {
  const auto before = samples_.front().values.find(key);
  return Now(key) - (before == samples_.front().values.end() ? 0 : before->second);
}

control_api::Health HealthMonitor::health() const {
  control_api::Health health;
  if (samples_.size() < 2) return health;
  const double seconds = samples_.back().seconds - samples_.front().seconds;
  if (seconds <= 0) return health;
  const bool trains =
      std::all_of(samples_.begin(), samples_.end(), [](const Sample& each) { return each.trains; });
  if (trains) AddWaits(seconds, &health);
  AddLinks(seconds, trains, &health);
  return health;
}

void HealthMonitor::AddWaits(double seconds, control_api::Health* health) const {
  health->set_iterations_per_second(Increase({"millrace_run_iterations_here_total"}) / seconds);
  const double solver_seconds = seconds * Now({"millrace_run_solvers"});
  if (solver_seconds <= 0) return;
  const auto share = [&](const char* name) {
    return std::clamp(Increase({name}) / solver_seconds, 0.0, 1.0);
  };
  const double data = share("millrace_run_data_wait_seconds_total");
  const double processor = share("millrace_run_processor_wait_seconds_total");
  health->set_data_share(data);
  health->set_processor_share(processor);
  double diffs = 0, damped = 0;
  for (const auto& [key, value] : samples_.back().values) {
    if (key.name != "millrace_segment_diffs_sent_total") continue;
    diffs += Increase(key);
    damped += Increase({"millrace_segment_diffs_damped_total", key.segment});
  }
  const double delayed = diffs > 0 ? damped / diffs : 0;
  if (diffs > 0) health->set_delayed_share(delayed);
  if (seconds < kWindowSeconds / 2) return;
  if (std::max(data, processor) > kMaxWaitShare) {
    health->set_waits_for(data >= processor ? "data" : "processor");
  } else {
    health->set_waits_for(delayed > kMaxDelayedShare && diffs >= kMinDiffs ? "network" : "");
  }
}

void HealthMonitor::AddLinks(double seconds, bool trains, control_api::Health* health) const {
  for (const auto& [key, frames] : samples_.back().values) {
    if (key.name != "millrace_peer_frames_received_total") continue;
    const auto of = [&](const char* name) { return Key{name, key.segment, key.peer}; };
    control_api::Link* const link = health->add_link();
    link->set_segment(key.segment);
    link->set_peer(key.peer);
    link->set_sent_bytes_per_second(Increase(of("millrace_peer_sent_bytes_total")) / seconds);
    link->set_received_bytes_per_second(Increase(of("millrace_peer_received_bytes_total")) /
                                        seconds);
    const double diffs = Increase(of("millrace_peer_diffs_sent_total"));
    const double resent = Increase(of("millrace_peer_resends_total"));
    const double resent_share = diffs > 0 ? resent / diffs : 0;
    const double round_trip = Now(of("millrace_peer_round_trip_p50_seconds"));
    const double age = Now(of("millrace_peer_age_p50_seconds"));
    link->set_resent_share(resent_share);
    link->set_round_trip_seconds(round_trip);
    link->set_age_seconds(age);
    if (!trains || seconds < kWindowSeconds / 2) continue;
    if (Increase(key) <= 0) {
      link->set_problem(frames > 0 ? "silent" : "");
    } else if (diffs >= kMinDiffs && resent_share > kMaxResentShare) {
      link->set_problem("loses frames");
    } else if (std::max(round_trip, age) > kMaxSeconds) {
      link->set_problem("slow");
    }
  }
}

}  // namespace millrace::inline control
