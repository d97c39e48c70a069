#include "train/net_profiler.h"

#include <glog/logging.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <numeric>
#include <vector>

#include "base/text/format.h"

namespace millrace::inline train {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void AddMemory(const BuiltNet& net, TimeReport* report) {
  const BuiltNet::Memory memory = net.memory();
  report->set_weight_mib(MiB(memory.weights));
  report->set_weight_gradient_mib(MiB(memory.weight_gradients));
  report->set_activation_mib(MiB(net.activation_bytes()));
  report->set_activation_value_mib(MiB(memory.activations));
  report->set_activation_gradient_mib(MiB(memory.activation_gradients));
  report->set_workspace_mib(MiB(memory.workspace));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  report->set_peak_resident_mib(static_cast<double>(usage.ru_maxrss) / 1024);
}

// snprintf into a string.
template <typename... Parts>
std::string Format(const char* format, Parts... parts) {
  char line[512];
  std::snprintf(line, sizeof(line), format, parts...);
  return line;
}

std::string Row(const std::string& name, const std::string& type, double forward, double backward) {
  return Format("%-28s %-16s %12.3f %12.3f\n", name.c_str(), type.c_str(), forward, backward);
}

}  // namespace

TimeReport TimeNet(BuiltNet* net, int iterations, const Clock& clock) {
  const size_t layers = net->nodes().size();
  std::vector<std::vector<double>> forward(layers), backward(layers);
  std::vector<double> forward_sum, backward_sum;
  net->gradients();
  int64_t begin_ns = 0;
  for (int iteration = -1; iteration < iterations; ++iteration) {
    const bool counts = iteration >= 0;
    if (iteration == 0) begin_ns = clock.NowNs();
    net->set_pass(iteration + 1);
    net->ClearGradients();
    const auto timed = [&](auto run, size_t layer, std::vector<double>* times) {
      const int64_t start = clock.NowNs();
      run(layer);
      net->queue().Synchronize();
      const double ms = static_cast<double>(clock.NowNs() - start) * 1e-6;
      if (counts) times->push_back(ms);
      return ms;
    };
    double forward_ms = 0, backward_ms = 0;
    for (size_t i = 0; i < layers; ++i) {
      forward_ms += timed([&](size_t layer) { net->ForwardNode(layer); }, i, &forward[i]);
    }
    for (size_t i = layers; i-- > 0;) {
      backward_ms += timed([&](size_t layer) { net->BackwardNode(layer); }, i, &backward[i]);
    }
    if (!counts) continue;
    forward_sum.push_back(forward_ms);
    backward_sum.push_back(backward_ms);
    LOG(INFO) << "Iteration: " << iteration + 1
              << " forward-backward time: " << forward_ms + backward_ms << " ms.";
  }

  TimeReport report;
  report.set_total_ms(static_cast<double>(clock.NowNs() - begin_ns) * 1e-6);
  report.set_net(net->name());
  report.set_batch(net->batch_size());
  report.set_iterations(iterations);
  for (size_t i = 0; i < layers; ++i) {
    LayerTime* layer = report.add_layer();
    layer->set_name(net->nodes()[i].layer->name());
    layer->set_type(net->nodes()[i].layer->type());
    layer->set_forward_ms(Median(forward[i]));
    layer->set_backward_ms(Median(backward[i]));
    layer->set_mean_forward_ms(Mean(forward[i]));
    layer->set_mean_backward_ms(Mean(backward[i]));
  }
  report.set_forward_ms(Median(forward_sum));
  report.set_backward_ms(Median(backward_sum));
  report.set_mean_forward_ms(Mean(forward_sum));
  report.set_mean_backward_ms(Mean(backward_sum));
  const double total_ms = report.forward_ms() + report.backward_ms();
  report.set_images_per_second(static_cast<double>(report.batch()) / total_ms * 1e3);
  AddMemory(*net, &report);
  return report;
}

std::string TimeTable(const TimeReport& report) {
  std::string table =
      Format("%-28s %-16s %12s %12s\n", "layer", "type", "forward ms", "backward ms");
  for (const LayerTime& layer : report.layer()) {
    table += Row(layer.name(), layer.type(), layer.forward_ms(), layer.backward_ms());
  }
  table += Row("all", "", report.forward_ms(), report.backward_ms());
  table += Format(
      "%.1f images/s forward and backward, batch %d, medians of %d iterations; %.1f ms in total\n",
      report.images_per_second(), report.batch(), report.iterations(), report.total_ms());
  const auto memory = [&table](const char* name, double mib) {
    table += Format("%-45s %12.2f\n", name, mib);
  };
  table += Format("\n%-45s %12s\n", "memory", "MiB");
  memory("weights", report.weight_mib());
  memory("gradients of the weights", report.weight_gradient_mib());
  memory("activations", report.activation_value_mib());
  memory("gradients of the activations", report.activation_gradient_mib());
  memory("workspace that the layers share", report.workspace_mib());
  memory("all of these",
         report.weight_mib() + report.weight_gradient_mib() + report.activation_mib());
  memory("peak resident memory of the process", report.peak_resident_mib());
  return table;
}

void LogTimes(const TimeReport& report) {
  LOG(INFO) << "Average time per layer: ";
  for (const LayerTime& layer : report.layer()) {
    LOG(INFO) << std::setw(10) << layer.name() << "\tforward: " << layer.mean_forward_ms()
              << " ms.";
    LOG(INFO) << std::setw(10) << layer.name() << "\tbackward: " << layer.mean_backward_ms()
              << " ms.";
  }
  LOG(INFO) << "Average Forward pass: " << report.mean_forward_ms() << " ms.";
  LOG(INFO) << "Average Backward pass: " << report.mean_backward_ms() << " ms.";
  LOG(INFO) << "Average Forward-Backward: " << report.total_ms() / report.iterations() << " ms.";
  LOG(INFO) << "Total Time: " << report.total_ms() << " ms.";
}

}  // namespace millrace::inline train
