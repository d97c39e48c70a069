// A minibatch service on one machine, and trainings on two others.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "proto/parse.h"
#include "test/netns/network.h"
#include "test/support/eventually.h"
#include "test/support/problem.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// The weights of a model, without the text of its net.
std::string WeightsIn(const std::string& snapshot) {
  caffe::NetParameter model;
  LoadBinary(snapshot + ".caffemodel", "model", &model);
  std::string weights;
  for (const caffe::LayerParameter& layer : model.layer()) {
    for (const caffe::BlobProto& blob : layer.blobs()) weights += blob.SerializeAsString();
  }
  return weights;
}

class BatchServiceAcrossMachines : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = Network::WhyNot();
    if (!reason.empty()) GTEST_SKIP() << reason;
    network_ = std::make_unique<Network>(1500, 2);
    net_ = work_.Net();
    net_.data_fields = "shuffle: true";
    net_.transform_fields = "crop_size: 7 mirror: true";
    work_.WriteNet(net_);
    WriteFile(work_ / "cluster.key", std::string(64, 'a'));
    chmod((work_ / "cluster.key").c_str(), 0600);
  }
  std::unique_ptr<Process> Start(int machine, std::vector<std::string> command) {
    command.insert(command.begin(), Binary());
    std::unique_ptr<Process> process;
    network_->Inside(machine, [&] { process = std::make_unique<Process>(command); });
    return process;
  }
  std::unique_ptr<Process> Serve() {
    auto service =
        Start(0, {"serve-data", "--model=" + (work_ / "net.prototxt"), "--seed=7",
                  "--listen=" + Network::AddressOf(0) + ":7700", "--threads=1",
                  "--state=" + (work_ / "state"), "--key_file=" + (work_ / "cluster.key")});
    return service;
  }
  std::string Served(const std::string& name, int iterations, const std::string& options = "") {
    SmallNet net = net_;
    net.train_sources = {StrCat("batch://", Network::AddressOf(0),
                                ":7700/train?key_file=", work_ / "cluster.key", options)};
    net.data_fields = "";
    WriteFile(work_ / (name + "_net.prototxt"), net.Text());
    caffe::SolverParameter solver = Workspace::Solver(iterations);
    solver.set_net(work_ / (name + "_net.prototxt"));
    return work_.Write(name, solver);
  }

  std::unique_ptr<Network> network_;
  Workspace work_;
  SmallNet net_;
};

TEST_F(BatchServiceAcrossMachines, GivesTheWeightsOfLocalReadingAlsoWhenTheServiceIsKilled) {
  const CommandResult local =
      test::Run({Binary(), "train", "--solver=" + work_.Write("local", Workspace::Solver(400))});
  ASSERT_EQ(local.status, 0) << local.errors;
  std::unique_ptr<Process> service = Serve();
  const auto worker = Start(1, {"train", "--solver=" + Served("served", 400)});
  ASSERT_TRUE(Eventually([&] {
    return service->ErrorsSoFar().find("over its connection") != std::string::npos;
  })) << service->ErrorsSoFar()
      << worker->ErrorsSoFar();
  service->Signal(SIGKILL);
  service->Wait();
  service = Serve();
  const CommandResult served = worker->Wait();
  ASSERT_EQ(served.status, 0) << served.errors;
  EXPECT_EQ(WeightsIn(work_.Snapshot("served", 400)), WeightsIn(work_.Snapshot("local", 400)));
  service->Signal(SIGINT);
  EXPECT_EQ(service->Wait().status, 0);
}

TEST_F(BatchServiceAcrossMachines, RefusesAWorkerWithoutTheKey) {
  const std::unique_ptr<Process> service = Serve();
  WriteFile(work_ / "other.key", std::string(64, 'b'));
  chmod((work_ / "other.key").c_str(), 0600);
  std::string solver = Served("served", 3);
  const std::string net = ReadFile(work_ / "served_net.prototxt");
  const size_t at = net.find("cluster.key");
  ASSERT_NE(at, net.npos);
  WriteFile(work_ / "served_net.prototxt",
            net.substr(0, at) + "other.key" + net.substr(at + std::string("cluster.key").size()));
  const CommandResult result = Start(1, {"train", "--solver=" + solver})->Wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_CONTAINS(result.errors, "it has not the service's key");
  EXPECT_EQ(PlainLines(result.errors).size(), 1u) << result.errors;
}

}  // namespace
}  // namespace millrace::test
