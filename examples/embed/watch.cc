// Prints the metrics of every training process of this user on this machine:
//   watch
#include <millrace/metrics.h>

#include <cstdio>

int main() {
  for (const millrace::CounterFileReading& process : millrace::ReadCounterFiles()) {
    std::printf("pid %d, %s\n", process.pid, millrace::OneLine(process.title).c_str());
    for (const auto& metric : process.metrics) {
      std::string name = process.families[metric.family].name;
      for (const auto& [label, value] : metric.labels) name += " " + label + "=" + value;
      std::printf("  %s %.6g\n", millrace::OneLine(name).c_str(), metric.value);
    }
  }
}
