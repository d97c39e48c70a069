#include "train/reporter.h"

#include <glog/logging.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "metrics/metrics_reading.h"

namespace millrace::inline train {
namespace {

// Adds "SEGMENT.NUMBER" for each number of a segment, and "SEGMENT.NUMBER.DETAIL" for details that
// are not 0; and "NUMBER.DETAIL" of the metrics that are not Millrace's own.
void AddMetrics(const MetricsRegistry& registry, MetricsRow* row) {
  constexpr std::string_view kGroup = "segment ";
  const MetricsReading reading = registry.Read();
  for (const MetricsReading::Metric& metric : reading.metrics) {
    if (IsOfProgram(reading, metric)) {
      (*row->mutable_program())[reading.NumberOf(metric) + metric.detail] = metric.value;
      continue;
    }
    if (!metric.group.starts_with(kGroup)) continue;
    const std::string name =
        StrCat(metric.group.substr(kGroup.size()), ".", reading.NumberOf(metric));
    (*row->mutable_segments())[name] += metric.value;
    if (metric.detail.empty() || metric.value == 0) continue;
    (*row->mutable_segments())[name + metric.detail] = metric.value;
  }
}

std::string TestHeader(int64_t iteration, int index) {
  return StrCat("Iteration ", iteration, ", Testing net (#", index, ")");
}

}  // namespace

Reporter::Reporter(const SolverConfig& config, const TrainOptions& options, const Clock& clock,
                   std::vector<MetricsSink*> sinks)
    : config_(config),
      options_(options),
      clock_(clock),
      sinks_(std::move(sinks)),
      losses_(config.param.average_loss()) {}

MetricsRow Reporter::Row(int64_t iteration) const {
  MetricsRow row;
  row.set_time(clock_.NowSeconds() - start_seconds_);
  row.set_iter(iteration);
  return row;
}

void Reporter::Start(const std::string& net_name, int64_t start, int64_t images) {
  std::lock_guard lock(mutex_);
  start_seconds_ = displayed_seconds_ = clock_.NowSeconds();
  images_per_iteration_ = images;
  if (options_.observer != nullptr) {
    options_.observer->Started(config_.param.max_iter(), static_cast<double>(images));
  }
  if (sinks_.empty()) return;
  MetricsRow row = Row(start);
  RunInfo* run = row.mutable_run();
  run->set_name(net_name);
  run->set_solver(options_.solver_file);
  run->set_solvers(options_.solvers.value_or(1) + static_cast<int>(options_.gpus.size()));
  run->set_max_iter(config_.param.max_iter());
  run->set_seed(config_.seed);
  run->set_start_unix_time(static_cast<double>(std::time(nullptr)));
  for (MetricsSink* sink : sinks_) sink->Write(row);
}

void Reporter::Taking(int solver, int64_t at_least) {
  std::lock_guard lock(mutex_);
  under_way_[solver] = at_least;
}

void Reporter::Took(int solver, int64_t iteration, bool has_lines) {
  std::lock_guard lock(mutex_);
  under_way_[solver] = has_lines ? iteration : INT64_MAX;
  WriteWaiting();
}

void Reporter::TakesNoMore(int solver) {
  std::lock_guard lock(mutex_);
  under_way_.erase(solver);
  WriteWaiting();
}

void Reporter::Write(Report report) {
  if (!report.lines.empty() || report.row) {
    waiting_.emplace(report.iteration, std::move(report));
  }
  WriteWaiting();
}

void Reporter::WriteWaiting() {
  int64_t earliest = INT64_MAX;
  for (const auto& [solver, iteration] : under_way_) earliest = std::min(earliest, iteration);
  while (!waiting_.empty() && waiting_.begin()->first <= earliest) {
    const Report report = std::move(waiting_.extract(waiting_.begin()).mapped());
    for (const auto& [severity, text] : report.lines) {
      google::LogMessage(__FILE__, __LINE__, severity).stream() << text;
    }
    if (!report.row) continue;
    for (MetricsSink* sink : sinks_) sink->Write(*report.row);
  }
  if (waiting_.empty() && left_out_ > 0) {
    LOG(WARNING) << std::exchange(left_out_, 0)
                 << " displayed iterations are left out: they came while one solver was at an "
                 << "earlier iteration, or its test";
  }
}

void Reporter::Iteration(const StepResult& step, const BuiltNet& net, bool display, int solver) {
  const int64_t iteration = step.iteration;
  std::lock_guard lock(mutex_);
  losses_.Add(step.loss);
  ++done_;
  Report report{.iteration = iteration};
  const int interval = config_.param.display();
  if (display || (interval > 0 && iteration % interval == 0)) {
    if (waiting_.size() < kMaxWaiting || iteration < waiting_.begin()->first) {
      Display(iteration, losses_.Mean(), step.rate, net, &report);
    } else {
      ++left_out_;
    }
  }
  if (!step.notice.empty()) report.Add(step.notice);
  under_way_.erase(solver);
  Write(std::move(report));
  if (options_.observer != nullptr) {
    options_.observer->Updated(step.rate);
    options_.observer->Iterated(iteration + 1, losses_.Mean());
  }
}

void Reporter::Display(int64_t iteration, float loss, float rate, const BuiltNet& net,
                       Report* report) {
  const double now = clock_.NowSeconds();
  const double elapsed = now - displayed_seconds_;
  const int64_t iterations = done_ - displayed_done_;
  const double per_second = elapsed > 0 ? static_cast<double>(iterations) / elapsed : 0;
  report->Add("Iteration ", iteration, " (", per_second, " iter/s, ", elapsed, "s/", iterations,
              " iters), loss = ", loss);
  const std::vector<float> values = net.OutputValues();
  size_t index = 0;
  for (const BuiltNet::Output& output : net.outputs()) {
    for (int64_t i = 0; i < output.blob->count(); ++i) {
      const float value = values[index];
      report->Add("    Train net output #", index++, ": ", output.name, " = ", value,
                  LossNote(output.loss_weight, value));
    }
  }
  report->Add("Iteration ", iteration, ", lr = ", rate);
  displayed_seconds_ = now;
  displayed_done_ = done_;
  if (sinks_.empty()) return;
  MetricsRow row = Row(iteration);
  row.mutable_train()->set_loss(loss);
  row.mutable_train()->set_learning_rate(rate);
  row.mutable_train()->set_images_per_second(per_second *
                                             static_cast<double>(images_per_iteration_));
  if (registry_) AddMetrics(*registry_, &row);
  report->row = std::move(row);
}

void Reporter::FinalLoss(int64_t iteration, float loss) {
  std::lock_guard lock(mutex_);
  losses_.Add(loss);
  LOG(INFO) << "Iteration " << iteration << ", loss = " << losses_.Mean();
}

void Reporter::AddClasses(const OutputMean& output, Report* report) const {
  for (const ClassPrecision& each : output.classes) {
    if (!each.precision) {
      report->lines.emplace_back(google::GLOG_WARNING,
                                 StrCat("Missing true_pos for label: ", each.label));
    } else if (config_.param.show_per_class_result()) {
      report->Add("class", each.label, ": ", *each.precision);
    }
  }
}

void Reporter::BeginTest(int64_t iteration, int index) {
  std::lock_guard lock(mutex_);
  const size_t solvers = options_.solvers.value_or(1) + options_.gpus.size();
  if (solvers > 1) {
    LOG(INFO) << "Evaluating net #" << index << " at iteration " << iteration;
    return;
  }
  LOG(INFO) << TestHeader(iteration, index);
  announced_ = {iteration, index};
}

void Reporter::InterruptTest() { LOG(INFO) << "Test interrupted."; }

void Reporter::Test(int64_t iteration, int index, const Evaluation& evaluation) {
  std::lock_guard lock(mutex_);
  Report report{.iteration = iteration};
  if (announced_ != std::pair{iteration, index}) report.Add(TestHeader(iteration, index));
  announced_.reset();
  if (config_.param.test_compute_loss()) report.Add("Test loss: ", evaluation.loss);
  int output_index = 0;
  report.row = Row(iteration);
  MetricsRow& row = *report.row;
  row.mutable_test()->set_net(index);
  for (const OutputMean& output : evaluation.outputs) {
    AddClasses(output, &report);
    report.Add("    Test net output #", output_index++, ": ", output.name, " = ", output.mean,
               LossNote(output.loss_weight, output.mean));
    (*row.mutable_test()->mutable_outputs())[output.name] = output.mean;
  }
  Write(std::move(report));
  if (options_.observer != nullptr) options_.observer->Tested(iteration, index, evaluation);
}

void Reporter::Finish() {
  std::lock_guard lock(mutex_);
  under_way_.clear();
  WriteWaiting();
  if (options_.observer != nullptr) options_.observer->Ended();
}

float Reporter::loss() const {
  std::lock_guard lock(mutex_);
  return losses_.Mean();
}

}  // namespace millrace::inline train
