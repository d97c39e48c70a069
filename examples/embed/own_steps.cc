// Trains the net of a solver file for some iterations and tests it:
//   own_steps SOLVER.prototxt [ITERATIONS]
#include <millrace/metrics.h>
#include <millrace/session.h>
#include <millrace/version.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: own_steps SOLVER.prototxt [ITERATIONS]\n");
    return 1;
  }
  const long iterations = argc == 3 ? std::atol(argv[2]) : 1000;
  try {
    // `millrace top` shows this number of the program, beside the session's own numbers.
    millrace::MetricsRegistry& metrics = millrace::MetricsRegistry::OfProcess();
    millrace::Gauge* const lowest = metrics.AddGauge({"own_steps_lowest_loss", "Lowest loss."});
    millrace::SessionOptions options;
    options.metrics = &metrics;
    const auto session = millrace::Session::Open(argv[1], options);
    std::printf("millrace %s: %zu arrays of weights, %zu floats\n", millrace::Version(),
                session->arrays().size(), session->weights().size());
    while (session->iteration() < iterations) {
      const auto step = session->Step();
      if (!step) break;
      if (step->iteration == 0 || step->loss < lowest->Read()) lowest->Set(step->loss);
      if (step->iteration % 100 == 0) {
        std::printf("iteration %ld: loss %.4f\n", static_cast<long>(step->iteration), step->loss);
      }
    }
    for (const millrace::TestOutput& output : session->Test()) {
      std::printf("%s = %.4f\n", output.name.c_str(), output.mean);
    }
    const millrace::MetricsReading reading = metrics.Read();
    std::printf("%.0f iterations, lowest loss %.4f\n", reading.Value("run", "iterations_here"),
                reading.Value("run", "own_steps_lowest_loss"));
  } catch (const millrace::Error& error) {
    std::fprintf(stderr, "own_steps: %s\n", error.what());
    return 1;
  }
}
