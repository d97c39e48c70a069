// Asynchronous SGD by the parameter server ps-lite, for bench/time_to_accuracy: each worker computes
// gradients with Millrace's nets, the servers keep the weights and update them by SGD with momentum.
//
//   DMLC_ROLE=scheduler|server|worker DMLC_... trainer SOLVER RATE OVERLAP INTERVAL ACCURACY ITERATIONS
//
// SOLVER has base_lr 0: its session reads this worker's share of the data and computes gradients and
// tests only. RATE is the learning rate of the servers, which falls as in Caffe's LeNet. With OVERLAP 1 a
// worker sends its gradient and gets weights while it computes its next gradient, so its weights lack its
// last one; with 0 it waits for them. Servers apply each gradient when it arrives. Worker 0 tests after each INTERVAL iterations
// of all workers, as counted by its own, and prints a line of JSON for each test; the run ends when a
// test reaches ACCURACY, or after ITERATIONS of all workers.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "millrace/error.h"
#include "millrace/session.h"
#include "ps/ps.h"

namespace {

constexpr float kMomentum = 0.9f, kDecay = 5e-4f;
constexpr int kBlock = 16384;  // floats with a key of their own
constexpr int kBegin = 1;      // a push of weights in place of gradients

// A server's part of the weights. ps-lite calls it on one thread.
class Parameters {
 public:
  explicit Parameters(float rate) : rate_(rate) {}

  void operator()(const ps::KVMeta& request, const ps::KVPairs<float>& data,
                  ps::KVServer<float>* server) {
    if (request.push) Apply(request.cmd == kBegin, data);
    ps::KVPairs<float> reply;
    if (request.pull) {
      reply.keys = data.keys;
      for (const ps::Key key : data.keys) {
        const std::vector<float>& weights = blocks_[key].weights;
        reply.lens.push_back(static_cast<int>(weights.size()));
        reply.vals.append(ps::SArray<float>(weights));
      }
    }
    server->Response(request, reply);
  }

 private:
  struct Block {
    std::vector<float> weights, velocity;
  };

  void Apply(bool begins, const ps::KVPairs<float>& data) {
    // Gradients of all workers count as iterations.
    const float rate = rate_ * std::pow(1 + 1e-4f * static_cast<float>(iterations_), -0.75f);
    if (!begins) ++iterations_;
    const float* values = data.vals.data();
    for (size_t i = 0; i < data.keys.size(); values += data.lens[i++]) {
      Block& block = blocks_[data.keys[i]];
      if (begins) {
        block.weights.assign(values, values + data.lens[i]);
        block.velocity.assign(data.lens[i], 0);
        continue;
      }
      for (int j = 0; j < data.lens[i]; ++j) {
        float& w = block.weights[j];
        float& v = block.velocity[j];
        v = kMomentum * v + rate * (values[j] + kDecay * w);
        w -= v;
      }
    }
  }

  const float rate_;
  int64_t iterations_ = 0;
  std::unordered_map<ps::Key, Block> blocks_;
};

// The keys and lengths of the blocks of `size` floats, in order, spread evenly over the servers.
void MakeKeys(size_t size, ps::SArray<ps::Key>* keys, ps::SArray<int>* lengths) {
  const auto& ranges = ps::Postoffice::Get()->GetServerKeyRanges();
  const size_t blocks = (size + kBlock - 1) / kBlock;
  for (size_t b = 0; b < blocks; ++b) {
    keys->push_back(ranges[b * ranges.size() / blocks].begin() + b);
    lengths->push_back(static_cast<int>(std::min<size_t>(kBlock, size - b * kBlock)));
  }
}

void Train(const std::string& solver, bool overlap, int interval, double accuracy, int iterations) {
  const int rank = ps::MyRank(), workers = ps::NumWorkers();
  const auto session = millrace::Session::Open(
      solver, {.shard_index = static_cast<uint64_t>(rank),
               .shard_count = static_cast<uint64_t>(workers)});
  const auto weights = session->weights();
  const auto gradients = session->net().gradients();
  ps::KVWorker<float> store(0, 0);
  ps::SArray<ps::Key> keys;
  ps::SArray<int> lengths;
  MakeKeys(weights.size(), &keys, &lengths);
  ps::SArray<float> sent(weights.size()), received(weights.size());
  if (rank == 0) {
    std::copy(weights.begin(), weights.end(), sent.data());
    store.Wait(store.ZPush(keys, sent, lengths, kBegin));
  }
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  store.Wait(store.ZPull(keys, &received, &lengths));
  std::copy(received.data(), received.data() + received.size(), weights.begin());

  const auto start = std::chrono::steady_clock::now();
  int pending = -1;
  const auto take = [&] {
    store.Wait(pending);
    std::copy(received.data(), received.data() + received.size(), weights.begin());
    pending = -1;
  };
  for (int iteration = 0; iteration * workers < iterations; ++iteration) {
    session->Step();
    if (pending >= 0) take();
    std::copy(gradients.begin(), gradients.end(), sent.data());
    for (const millrace::WeightArray& array : session->arrays()) {
      if (array.shape.size() != 1) continue;
      // Biases have lr_mult 2.
      for (int64_t i = 0; i < array.count; ++i) sent[array.offset + i] *= 2;
    }
    pending = store.ZPushPull(keys, sent, &received, &lengths);
    if (!overlap) take();
    const int before = iteration * workers, after = before + workers;
    if (rank != 0 || before / interval == after / interval) continue;
    for (const millrace::TestOutput& output : session->Test()) {
      if (output.name != "accuracy") continue;
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      std::cout << "{\"time\": " << seconds.count() << ", \"iter\": " << after
                << ", \"accuracy\": " << output.mean << "}" << std::endl;
      // The other processes wait for this one without end; whoever started them stops them.
      if (output.mean >= accuracy) std::_Exit(0);
    }
  }
  if (pending >= 0) take();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::cerr << "trainer: expected SOLVER RATE OVERLAP INTERVAL ACCURACY ITERATIONS\n";
    return 1;
  }
  try {
    ps::Start(0);
    if (ps::IsServer()) {
      auto* server = new ps::KVServer<float>(0);
      server->set_request_handle(Parameters(std::stof(argv[2])));
      ps::RegisterExitCallback([server] { delete server; });
    }
    if (ps::IsWorker()) {
      Train(argv[1], std::stoi(argv[3]) != 0, std::stoi(argv[4]), std::stod(argv[5]),
            std::stoi(argv[6]));
    }
    ps::Finalize(0, true);
  } catch (const std::exception& error) {
    std::cerr << "trainer: " << error.what() << "\n";
    std::_Exit(1);
  }
  return 0;
}
