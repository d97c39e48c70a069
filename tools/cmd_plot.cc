// millrace plot: draws runs from their metrics files.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include "base/error.h"
#include "base/files/file.h"
#include "metrics/figure.h"
#include "metrics/metrics_writer.h"
#include "tools/command.h"
#include "tools/flags.h"

DEFINE_string(o, "", "the file to write: PNG if its name ends in .png, otherwise SVG");

namespace millrace {
namespace {

// "data/mnist/run.jsonl" appears as "run" in the legend.
std::string NameOf(const std::string& path) {
  const std::string file = path.substr(Dirname(path).size());
  return file.ends_with(".jsonl") ? file.substr(0, file.size() - 6) : file;
}

int RunPlot(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw Error("no metrics file given, expected RUN.jsonl... -o CURVES.svg");
  RequireFlag("o", FLAGS_o);
  std::vector<Run> runs;
  for (const std::string& path : arguments) runs.push_back({NameOf(path), ReadMetrics(path)});
  RunGnuplot(FigureScript(PlotRuns(runs), FLAGS_o), FLAGS_o);
  LOG(INFO) << "Drew " << runs.size() << (runs.size() == 1 ? " run" : " runs") << " into "
            << FLAGS_o;
  return 0;
}

const RegisterCommand registered_plot(
    {"plot", "RUN.jsonl...", "draws loss and accuracy of runs (with gnuplot)", {"o"}, RunPlot});

}  // namespace
}  // namespace millrace
