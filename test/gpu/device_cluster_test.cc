// GPUs in a cluster: what a GPU adds reaches the other nodes, and what these add reaches the GPU.
#include "test/gpu/gpu_support.h"
#include "test/support/cluster_node.h"
#include "transport/loopback/transport.h"

namespace millrace::test {
namespace {

constexpr int64_t kSize = 10'000;

// A node whose replica is a weight buffer, with one segment of two nodes.
class Node {
 public:
  Node(NodeId id, LoopbackHub* hub) : weights_(WeightBuffer::CreatePrivate(FlatLayout(kSize))) {
    NetSegmentConfig config = EndConfig(id, 2, NewIncarnation());
    config.name = "lan";
    std::vector<ClusterSegment> segments;
    segments.push_back(
        {.net = std::make_unique<NetSegment>(config, hub->Connect(id), weights_->data(), kSize,
                                             HostReplica(&weights_->locks())),
         .thread = {}});
    cluster_ =
        std::make_unique<Cluster>(std::move(segments), 0, &weights_->clock(), &clock_, &errors_);
  }

  void Link(const std::vector<DeviceWeights*>& devices) {
    links_ = std::make_unique<DeviceLinks>(DeviceLinksConfig{.host = weights_.get(),
                                                             .devices = devices,
                                                             .cluster = cluster_.get(),
                                                             .clock = &clock_,
                                                             .sink = &errors_,
                                                             .registry = nullptr});
    ASSERT_TRUE(Await([&] { return links_->in_sync(); }));
  }

  WeightBuffer& weights() { return *weights_; }
  Cluster& cluster() { return *cluster_; }
  DeviceLinks& links() { return *links_; }
  bool Holds(float value) const {
    return std::all_of(weights_->data(), weights_->data() + kSize,
                       [&](float weight) { return weight == value; });
  }

 private:
  const SteadyClock clock_;
  ErrorSink errors_{[] {}};
  const std::unique_ptr<WeightBuffer> weights_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<DeviceLinks> links_;
};

TEST(GpuCluster, CarriesProgressBetweenTheGpusOfItsNodes) {
  FakeDevice devices[3];
  LoopbackHub hub({.nodes = 2});
  Node a(0, &hub), b(1, &hub);
  ASSERT_TRUE(Await([&] { return a.cluster().begun() && b.cluster().begun(); }));
  std::vector<std::unique_ptr<DeviceWeights>> replicas;
  for (FakeDevice& device : devices) {
    replicas.push_back(std::make_unique<DeviceWeights>(&device, kSize));
  }
  a.Link({replicas[0].get(), replicas[1].get()});
  b.Link({replicas[2].get()});
  const auto values = [&](int gpu) {
    std::vector<float> copy(kSize);
    replicas[gpu]->CopyToHost(copy.data());
    return copy;
  };
  float sum = 0;
  const auto everywhere = [&] {
    const std::vector<float> expected(kSize, sum);
    return a.Holds(sum) && b.Holds(sum) && values(0) == expected && values(1) == expected &&
           values(2) == expected;
  };
  // One replica after the other makes progress, with rests in which nobody reports any: then only
  // the merges of one segment say that another has something to pass on.
  float step = 1;
  for (int gpu = 0; gpu < 3; ++gpu, step *= 4) {
    Node& node = gpu < 2 ? a : b;
    AddingSolver solver(
        std::make_unique<DeviceStrategy>(replicas[gpu].get(), &node.weights().clock()), kSize,
        step);
    solver.Iterate(2);
    solver.Finish();
    sum += 2 * step;
    EXPECT_TRUE(Await(everywhere)) << gpu;
  }
  AddingSolver host(std::make_unique<HogwildStrategy>(&b.weights()), kSize, step);
  host.Iterate(3);
  sum += 3 * step;
  EXPECT_TRUE(Await(everywhere));
  for (Node* node : {&a, &b}) {  // counts travel apart from diffs
    EXPECT_TRUE(Await([&] { return node->weights().clock().global() == 9; }));
  }
  for (Node* node : {&a, &b}) {
    node->links().Leave();
    EXPECT_TRUE(Await([&] { return node->links().left(); }));
    node->links().Stop();
    EXPECT_TRUE(node->Holds(sum));
  }
}

}  // namespace
}  // namespace millrace::test
