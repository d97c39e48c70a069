// Time of a forward pass through the C++ API, beside which bench/python puts that from Python: sets
// the input, computes, and reads the output.
//   forward_bench NET SECONDS
// Prints the median of the microseconds of a pass, with the blobs in plain order as Python has
// them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "millrace/net.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: forward_bench NET SECONDS\n");
    return 1;
  }
  try {
    millrace::NetOptions options;
    options.plain_blobs = true;
    const auto net = millrace::Net::Open(argv[1], options);
    const std::string input = net->inputs().at(0).name, output = net->outputs().at(0).name;
    const std::vector<float> image(millrace::ShapeCount(net->inputs()[0].shape), 0.5f);
    float* const in = net->blob(input).data();
    const float* const out = net->blob(output).data();
    const millrace::SteadyClock clock;
    std::vector<double> times;
    float sum = 0;
    for (const double end = clock.NowSeconds() + std::atof(argv[2]); clock.NowSeconds() < end;) {
      const int64_t begin = clock.NowNs();
      std::copy(image.begin(), image.end(), in);
      net->Forward();
      sum += out[0];
      times.push_back(static_cast<double>(clock.NowNs() - begin) / 1e3);
    }
    std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                     times.end());
    std::printf("%.2f\n", times[times.size() / 2]);
    return sum > 0 ? 0 : 1;
  } catch (const millrace::Error& error) {
    std::fprintf(stderr, "forward_bench: %s\n", error.what());
    return 1;
  }
}
