// A command of the control service: multiplies the learning rate by a factor, and returns the rate
// that it has set.
//   millrace ctl call scale_rate 0.5
#include <millrace/control.h>
#include <millrace/run.h>

#include <cmath>
#include <cstdlib>
#include <string>

namespace {

std::string ScaleRate(const millrace::ControlCall& call) {
  char* end = nullptr;
  const double factor = std::strtod(call.arguments.c_str(), &end);
  if (*end != '\0' || !std::isfinite(factor) || factor <= 0) {
    throw millrace::Error("expected a factor above 0, such as 0.5");
  }
  const double rate = call.run.status().learning_rate * factor;
  call.run.SetLearningRate(static_cast<float>(rate));
  return std::to_string(rate);
}

const millrace::RegisterControlCommand registered({.name = "scale_rate",
                                                   .help = "Multiplies the learning rate.",
                                                   .run = ScaleRate});

}  // namespace
