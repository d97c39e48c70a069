#include "train/net_profiler.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace millrace {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

TimeReport TimeNet(nn::Net* net, int iterations, const Clock& clock) {
  const size_t layers = net->nodes().size();
  std::vector<std::vector<double>> forward(layers), backward(layers);
  std::vector<double> forward_sum, backward_sum;
  net->gradients();
  for (int iteration = -1; iteration < iterations; ++iteration) {
    const bool counts = iteration >= 0;
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
    double sum = 0;
    for (size_t i = 0; i < layers; ++i) {
      sum += timed([&](size_t layer) { net->ForwardNode(layer); }, i, &forward[i]);
    }
    if (counts) forward_sum.push_back(sum);
    sum = 0;
    for (size_t i = layers; i-- > 0;) {
      sum += timed([&](size_t layer) { net->BackwardNode(layer); }, i, &backward[i]);
    }
    if (counts) backward_sum.push_back(sum);
  }

  TimeReport report;
  report.set_net(net->name());
  report.set_batch(net->batch_size());
  report.set_iterations(iterations);
  for (size_t i = 0; i < layers; ++i) {
    LayerTime* layer = report.add_layer();
    layer->set_name(net->nodes()[i].layer->name());
    layer->set_type(net->nodes()[i].layer->type());
    layer->set_forward_ms(Median(forward[i]));
    layer->set_backward_ms(Median(backward[i]));
  }
  report.set_forward_ms(Median(forward_sum));
  report.set_backward_ms(Median(backward_sum));
  const double total_ms = report.forward_ms() + report.backward_ms();
  report.set_images_per_second(static_cast<double>(report.batch()) / total_ms * 1e3);
  report.set_activation_mib(static_cast<double>(net->activation_bytes()) / (1 << 20));
  report.set_weight_mib(static_cast<double>(net->layout().size() * sizeof(float)) / (1 << 20));
  return report;
}

std::string TimeTable(const TimeReport& report) {
  char line[256];
  std::snprintf(line, sizeof(line), "%-28s %-16s %12s %12s\n", "layer", "type", "forward ms",
                "backward ms");
  std::string table = line;
  for (const LayerTime& layer : report.layer()) {
    std::snprintf(line, sizeof(line), "%-28s %-16s %12.3f %12.3f\n", layer.name().c_str(),
                  layer.type().c_str(), layer.forward_ms(), layer.backward_ms());
    table += line;
  }
  std::snprintf(line, sizeof(line), "%-28s %-16s %12.3f %12.3f\n", "all", "", report.forward_ms(),
                report.backward_ms());
  table += line;
  std::snprintf(line, sizeof(line),
                "%.1f images/s forward and backward, batch %d, medians of %d iterations; "
                "weights %.1f MiB, activations %.1f MiB\n",
                report.images_per_second(), report.batch(), report.iterations(),
                report.weight_mib(), report.activation_mib());
  return table + line;
}

}  // namespace millrace
