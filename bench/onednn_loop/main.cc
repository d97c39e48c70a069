// A training loop written by hand on oneDNN for three nets: the bound that
// Millrace is compared with.
//
// Forward pass, backward pass and momentum update on data already in memory, every
// step chosen for its net: no layer registry, no prototxt, no data layer. The
// weights of a net lie in one flat array in Caffe's order, which one or two
// threads train. Prints one line of JSON.
//
//   build/bench/onednn_loop --net=lenet --scaling --seconds=4
#include <gflags/gflags.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/measure.h"
#include "bench/onednn_loop/net.h"

DEFINE_string(net, "lenet", "lenet (batches of 64), quick (100) or caffenet (16)");
DEFINE_string(layout, "best", "order of activations: nhwc, blocked or best");
DEFINE_string(pool, "best", "max pooling: hand, onednn or best");
DEFINE_string(backward, "best", "nhwc convolutions' backward passes: gemm, onednn or best");
DEFINE_double(seconds, 2, "how long each segment is");
DEFINE_int32(repeats, 1, "segments; the medians are printed");
DEFINE_bool(scaling, false, "after each segment one with two threads on the same weights");
DEFINE_bool(profile, false, "each step's time, on stderr");

namespace onednn_loop {
namespace {

using millrace::bench::Median;

bool Choose(const char* flag, const std::string& value, const char* yes, const char* no,
            bool best) {
  if (value == "best") return best;
  if (value != yes && value != no) {
    throw std::invalid_argument("--" + std::string(flag) + "=" + value + ": expected " + yes +
                                ", " + no + " or best");
  }
  return value == yes;
}

Formulation FormulationFromFlags(const NetSpec& spec) {
  const Formulation best = BestFormulation(spec);
  return {Choose("layout", FLAGS_layout, "blocked", "nhwc", best.blocked),
          Choose("pool", FLAGS_pool, "hand", "onednn", best.hand_pool),
          Choose("backward", FLAGS_backward, "gemm", "onednn", best.gemm_backward)};
}

struct Measured {
  std::vector<double> rates;  // images/s of each segment
  float first_loss = 0, last_loss = 0;
};

// Threads 0 to threads[i] - 1 train together in segment i, the others wait.
Measured Run(const NetSpec& spec, const Formulation& how, float* weights,
             const std::vector<int>& threads, double seconds) {
  const int most = *std::max_element(threads.begin(), threads.end());
  Measured measured;
  measured.rates.resize(threads.size());
  std::vector<std::atomic<double>> share(most);
  std::barrier gate(most);
  const auto train = [&](Net* net) {
    const auto start = std::chrono::steady_clock::now();
    double spent = 0;
    int done = 0;
    while (spent < seconds) {
      net->Iterate();
      ++done;
      spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return done / spent;
  };
  const auto body = [&](int thread) {
    omp_set_num_threads(1);  // before the thread's first primitive
    Net net(spec, how, weights, thread, FLAGS_profile && thread == 0);
    net.Iterate();
    const float first_loss = net.loss();
    for (int i = 0; i < 2; ++i) net.Iterate();
    net.ClearProfile();
    double iterations = 0;
    for (size_t segment = 0; segment < threads.size(); ++segment) {
      gate.arrive_and_wait();
      const double rate = thread < threads[segment] ? train(&net) : 0;
      iterations += rate * seconds;
      share[thread] = rate * spec.batch;
      gate.arrive_and_wait();
      if (thread != 0) continue;
      for (const auto& part : share) measured.rates[segment] += part;
    }
    if (thread != 0) return;
    measured.first_loss = first_loss;
    measured.last_loss = net.loss();
    if (FLAGS_profile) net.PrintProfile(iterations);
  };
  std::vector<std::thread> workers;
  for (int thread = 0; thread < most; ++thread) workers.emplace_back(body, thread);
  for (std::thread& worker : workers) worker.join();
  return measured;
}

const char* IsaName() {
  return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core ? "avx512"
         : dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx2      ? "avx2"
                                                                     : "sse41";
}

void Measure() {
  if (FLAGS_seconds <= 0 || FLAGS_repeats < 1) {
    throw std::invalid_argument("--seconds and --repeats are positive");
  }
  const NetSpec spec = NetSpecOf(FLAGS_net);
  const Formulation how = FormulationFromFlags(spec);
  const ParamTable table = PlaceParams(spec);
  const HugeBuffer weights = AllocateHuge(table.size * sizeof(float));
  FillWeights(table, weights.get());

  std::vector<int> threads;
  for (int i = 0; i < FLAGS_repeats; ++i) {
    threads.push_back(1);
    if (FLAGS_scaling) threads.push_back(2);
  }
  const Measured measured = Run(spec, how, weights.get(), threads, FLAGS_seconds);
  std::vector<double> one, two;
  for (size_t i = 0; i < threads.size(); ++i) {
    (threads[i] == 1 ? one : two).push_back(measured.rates[i]);
  }
  std::printf(
      "{\"net\": \"%s\", \"batch\": %d, \"isa\": \"%s\", \"layout\": \"%s\", \"pool\": \"%s\"",
      spec.name.c_str(), spec.batch, IsaName(), how.blocked ? "blocked" : "nhwc",
      how.hand_pool ? "hand" : "onednn");
  std::printf(", \"images_per_second\": %.1f", Median(one));
  if (FLAGS_scaling) std::printf(", \"two_threads\": %.1f", Median(two));
  std::printf(", \"first_loss\": %.4f, \"last_loss\": %.4f}\n", measured.first_loss,
              measured.last_loss);
}

}  // namespace
}  // namespace onednn_loop

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  try {
    onednn_loop::Measure();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "onednn_loop: %s\n", error.what());
    return 1;
  }
}
