// Workers and a service in this process, which meet at loopback sockets and in shared memory.
#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/rng.h"
#include "batches/batch_client.h"
#include "batches/batch_server.h"
#include "data/data_service.h"
#include "nn/net_text.h"
#include "test/data/layer_instance.h"
#include "test/data/test_db.h"
#include "test/support/eventually.h"
#include "test/support/log_watch.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

constexpr int kRecords = 60, kBatch = 4;

// How batches come to the worker.
enum class Way { kMemory, kConnection };

class BatchService : public testing::TestWithParam<Way> {
 protected:
  BatchService() {
    WriteLabels(folder_ / "db", kRecords);
    config_.listen = "127.0.0.1:0";
    config_.worker_timeout = 20;
    config_.threads = 2;
    config_.max_workers = 8;
    Layers({"data"});
  }
  ~BatchService() override { server_.reset(); }

  // The net has these data layers, whose batches are random parts of images.
  void Layers(const std::vector<std::string>& names, const std::string& fields = "") {
    net_text_.clear();
    for (const std::string& name : names) {
      net_text_ +=
          StrCat("layer { name: '", name, "' type: 'Data' top: '", name, "' top: '", name,
                 "_label' data_param { source: '", folder_ / "db", "' batch_size: ", kBatch, " ",
                 fields, " } transform_param { crop_size: 2 mirror: true scale: 0.5 } }\n");
    }
  }
  caffe::NetParameter Net() const {
    caffe::NetParameter net;
    ParseNet(net_text_, "net", &net, nullptr);
    return net;
  }
  void Start() {
    caffe::NetState state;
    state.set_phase(caffe::TRAIN);
    maker_ = std::make_unique<BatchMaker>(Net(), SourceMap("net"), state, 7);
    server_ = std::make_unique<BatchServer>(config_, maker_.get());
    config_.listen = server_->address();  // where the next one listens
  }
  void Stop() { server_.reset(); }
  std::vector<caffe::StreamPosition> AfterOneBatch();
  std::string Address(const std::string& options = "", const std::string& name = "train") const {
    return StrCat("batch://", server_ ? server_->address() : config_.listen, "/", name,
                  GetParam() == Way::kMemory ? "?memory=on" : "?memory=off", options);
  }
  BatchServerCounts counts() const { return server_->counts(); }

  TempDir folder_;
  std::string net_text_;
  MetricsRegistry metrics_;
  BatchServerConfig config_;
  std::unique_ptr<BatchMaker> maker_;
  std::unique_ptr<BatchServer> server_;
};

// A worker's data service and a layer that takes batches of a service.
class Worker {
 public:
  explicit Worker(const std::string& address, const std::string& layer = "data",
                  const std::vector<caffe::StreamPosition>& positions = {}) {
    if (!positions.empty()) data_.Restore("train", positions);
    param_ = LayerOf(StrCat("name: '", layer,
                            "' type: 'Data' top: 'x' top: 'y'"
                            " data_param { source: '",
                            address, "' prefetch: 2 }"));
    layer_ = std::make_unique<LayerInstance>(param_, &data_);
  }

  // All values of the next batch, which counts as trained on if `consumes`.
  std::vector<float> Next(bool consumes = true) {
    std::vector<float> values = layer_->Next(0);
    const std::vector<float> labels = layer_->Values(1);
    values.insert(values.end(), labels.begin(), labels.end());
    if (consumes) layer_->layer().EndIteration();
    return values;
  }
  // The labels of the next batch, which are the numbers of its records.
  std::vector<int> NextLabels(bool consumes = true) {
    Next(consumes);
    const std::vector<float> labels = layer_->Values(1);
    return {labels.begin(), labels.end()};
  }
  std::vector<caffe::StreamPosition> Positions() { return data_.Positions("train"); }
  LayerInstance& layer() { return *layer_; }
  DataService& data() { return data_; }

 private:
  DataService data_{DataOptions{}};
  caffe::LayerParameter param_;
  std::unique_ptr<LayerInstance> layer_;
};

// The labels of the service's batch `number`.
std::vector<int> LabelsOfBatch(uint64_t number) {
  std::vector<int> labels;
  for (uint64_t i = 0; i < kBatch; ++i) {
    labels.push_back(static_cast<int>((number * kBatch + i) % kRecords));
  }
  return labels;
}
// The number of the batch in its epoch.
int BatchOf(const std::vector<int>& labels) {
  EXPECT_EQ(labels, LabelsOfBatch(static_cast<uint64_t>(labels[0] / kBatch)));
  return labels[0] / kBatch;
}

// Batches that local layers give, for comparison.
class LocalLayer {
 public:
  LocalLayer(const caffe::NetParameter& net, int index, uint64_t seed)
      : data_(DataOptions{.seed = seed}), layer_(net.layer(index), &data_) {}
  std::vector<float> Next() {
    std::vector<float> values = layer_.Next(0);
    const std::vector<float> labels = layer_.Values(1);
    values.insert(values.end(), labels.begin(), labels.end());
    return values;
  }

 private:
  DataService data_;
  LayerInstance layer_;
};

TEST_P(BatchService, GivesOneWorkerTheBatchesOfLocalReading) {
  Layers({"data"}, "shuffle: true");
  Start();
  LocalLayer local(Net(), 0, 7);
  Worker worker(Address());
  for (int i = 0; i < 50; ++i) ASSERT_EQ(worker.Next(), local.Next()) << i;
  EXPECT_GE(counts().sent, 50u);
}

TEST_P(BatchService, CountsInItsMetrics) {
  config_.metrics = &metrics_;
  Start();
  const bool in_memory = GetParam() == Way::kMemory;
  const double bytes = static_cast<double>(maker_->layers()[0].bytes);
  const auto value = [&](const std::string& number) {
    return metrics_.Read().Value("run", number);
  };
  {
    Worker worker(Address());
    for (int i = 0; i < 10; ++i) worker.Next();
    EXPECT_TRUE(Eventually([&] { return value("consumed") == 10 && value("workers") == 1; }));
    EXPECT_GE(value("sent"), 10);
    EXPECT_GE(value("made"), 10);
    EXPECT_GT(value("make_seconds"), 0);
    EXPECT_GE(value("slots"), 1);
    EXPECT_TRUE(Eventually([&] { return value("sent_bytes") == bytes * value("sent"); }));
    const MetricsReading reading = metrics_.Read();
    for (const MetricsReading::Metric& metric : reading.metrics) {
      if (reading.NumberOf(metric) != "sent") continue;
      const bool is_way = metric.labels.back().second == (in_memory ? "memory" : "connection");
      EXPECT_EQ(metric.value > 0, is_way) << metric.labels.back().second;
    }
  }
  EXPECT_TRUE(Eventually([&] { return value("workers") == 0; }));
}

TEST_P(BatchService, GivesEachBatchToOneOfThreeWorkers) {
  Start();
  std::mutex mutex;
  std::map<int, int> times;
  std::vector<std::thread> threads;
  std::atomic<int> left = kRecords / kBatch * 20;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      Worker worker(Address());
      while (left.fetch_sub(1) > 0) {
        const int batch = BatchOf(worker.NextLabels());
        const std::lock_guard lock(mutex);
        ++times[batch];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // What workers had asked for ahead was given to others, but for the last.
  ASSERT_TRUE(Eventually([&] { return counts().workers == 0; }));
  int total = 0;
  for (const auto& [batch, count] : times) {
    EXPECT_NEAR(count, 20, 2) << batch;
    total += count;
  }
  EXPECT_EQ(total, kRecords / kBatch * 20);
  EXPECT_EQ(counts().twice, 0u);
  EXPECT_EQ(counts().consumed, static_cast<uint64_t>(total));
}

TEST_P(BatchService, GivesAllWorkersAllBatches) {
  config_.same = true;
  Start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      Worker worker(Address());
      for (uint64_t n = 0; n < 60; ++n) EXPECT_EQ(worker.NextLabels(), LabelsOfBatch(n));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return counts().consumed == 180; }));
}

TEST_P(BatchService, AWorkerThatStandsHoldsNoOtherBack) {
  Start();
  Worker slow(Address());
  slow.Next();
  Worker quick(Address());
  for (int i = 0; i < 200; ++i) quick.Next();
  EXPECT_LE(counts().used_slots, uint64_t{config_.max_workers} * config_.credit + 4);
  slow.Next();
}

TEST_P(BatchService, GivesTheBatchesOfAWorkerThatEndsToOthers) {
  Start();
  std::set<int> batches;
  {
    Worker first(Address());
    for (int i = 0; i < 3; ++i) batches.insert(BatchOf(first.NextLabels()));
    first.NextLabels(false);  // taken, not trained on
  }
  ASSERT_TRUE(Eventually([&] { return counts().returned > 0; }));
  Worker second(Address());
  for (int i = 3; i < kRecords / kBatch; ++i) batches.insert(BatchOf(second.NextLabels()));
  EXPECT_EQ(batches.size(), size_t{kRecords / kBatch});  // each batch of the epoch once
  EXPECT_EQ(counts().twice, 0u);
}

TEST_P(BatchService, AWorkerThatGoesOnFromASnapshotRepeatsItsBatches) {
  Start();
  std::vector<caffe::StreamPosition> snapshot;
  std::vector<std::vector<float>> first_life, second_life;
  std::optional<Worker> other(Address());
  {
    Worker worker(Address());
    for (int i = 0; i < 12; ++i) {
      if (i == 5) snapshot = worker.Positions();
      if (i >= 5) {
        first_life.push_back(worker.Next());
      } else {
        worker.Next();
      }
      other->Next();
    }
  }
  ASSERT_EQ(snapshot.size(), 1u);
  Worker again(Address(), "data", snapshot);
  for (int i = 5; i < 12; ++i) {
    second_life.push_back(again.Next());
    other->Next();
  }
  EXPECT_EQ(second_life, first_life);
  EXPECT_EQ(counts().twice, 0u);
}

TEST_P(BatchService, AllWorkersGoOnAfterTheServiceWasStartedAgain) {
  config_.state_file = folder_ / "state";
  Start();
  LogWatch log;
  std::set<int> batches;
  Worker first(Address()), second(Address());
  for (int i = 0; i < 3; ++i) {
    batches.insert(BatchOf(first.NextLabels()));
    batches.insert(BatchOf(second.NextLabels()));
  }
  Stop();
  Start();
  for (int i = 6; i + 1 < kRecords / kBatch; i += 2) {
    batches.insert(BatchOf(first.NextLabels()));
    batches.insert(BatchOf(second.NextLabels()));
  }
  EXPECT_GE(batches.size(), 12u);
  // All workers together have got what they trained on once.
  ASSERT_TRUE(Eventually([&] { return counts().consumed >= 6; }));
  EXPECT_EQ(counts().twice, 0u);
  EXPECT_FALSE(log.Saw("may be trained on twice"));
}

TEST_P(BatchService, NoBatchIsTrainedOnTwiceAcrossRestartsOfServiceAndWorkers) {
  config_.state_file = folder_ / "state";
  constexpr int kSteps = 150;
  Rng rng(Seed(), {1});
  std::vector<std::vector<int>> trained;  // labels, of the weights that live on
  std::unique_ptr<Worker> worker;
  std::vector<caffe::StreamPosition> snapshot;
  size_t trained_at_snapshot = 0;
  Start();
  for (int i = 0; i < kSteps; ++i) {
    if (!worker) worker = std::make_unique<Worker>(Address(), "data", snapshot);
    trained.push_back(worker->NextLabels());
    switch (rng.Below(20)) {
      case 0:  // the service ends and is started again
        Stop();
        Start();
        break;
      case 1:  // the worker ends, and goes on from its snapshot
        if (snapshot.empty()) break;
        worker.reset();
        trained.resize(trained_at_snapshot);
        break;
      case 2:
      case 3:
        snapshot = worker->Positions();
        trained_at_snapshot = trained.size();
        break;
      default:
        break;
    }
  }
  for (size_t i = 0; i < trained.size(); ++i) EXPECT_EQ(trained[i], LabelsOfBatch(i)) << i;
}

// The snapshot of a worker that has trained on one batch.
std::vector<caffe::StreamPosition> BatchService::AfterOneBatch() {
  Worker worker(Address());
  worker.Next();
  return worker.Positions();
}

TEST_P(BatchService, RefusesPositionsThatItDoesNotKnow) {
  Start();
  const std::vector<caffe::StreamPosition> snapshot = AfterOneBatch();
  Stop();
  Start();  // without a state file
  Worker again(Address(), "data", snapshot);
  const std::string error = ErrorOf([&] { again.Next(); });
  EXPECT_CONTAINS(error, "data layer 'data': batch://127.0.0.1:");
  EXPECT_CONTAINS(error, "was started anew and does not know the worker's position");
  EXPECT_EQ(error.find('\n'), error.npos);
}

TEST_P(BatchService, BeginsWhereItIsTold) {
  Start();
  const std::vector<caffe::StreamPosition> snapshot = AfterOneBatch();
  Stop();
  config_.has_first_batch = true;
  config_.first_batch = 9;
  Start();
  LogWatch log;
  Worker again(Address(), "data", snapshot);
  EXPECT_EQ(again.NextLabels(), LabelsOfBatch(9));
  EXPECT_TRUE(log.Saw("is taken as a new worker"));
}

TEST_P(BatchService, OnlyOneWorkerGoesOnFromAPosition) {
  Start();
  Worker worker(Address());
  worker.Next();
  Worker twin(Address("&wait=0"), "data", worker.Positions());
  EXPECT_CONTAINS(ErrorOf([&] { twin.Next(); }), "goes on from the same position");
  worker.Next();
}

TEST_P(BatchService, TheLayersOfANetStayInStep) {
  Layers({"left", "right"});
  Start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      DataService data{DataOptions{}};
      const auto layer = [&](const std::string& name) {
        return LayerOf(StrCat("name: '", name, "' type: 'Data' top: 'x' top: 'y' data_param {",
                              " source: '", Address("", "train/" + name), "' prefetch: 3 }"));
      };
      LayerInstance left(layer("left"), &data), right(layer("right"), &data);
      for (int n = 0; n < 60; ++n) {
        left.Forward();
        right.Forward();
        EXPECT_EQ(left.Values(1), right.Values(1));
        left.layer().EndIteration();
        right.layer().EndIteration();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts().twice, 0u);
}

TEST_P(BatchService, SeveralSolversOfAProcessShareOneConnection) {
  WriteLabels(folder_ / "many", 400);  // an epoch is longer than what is read ahead
  net_text_ = StrCat("layer { name: 'data' type: 'Data' top: 'x' data_param { source: '",
                     folder_ / "many", "' batch_size: 4 } }");
  Start();
  DataService data{DataOptions{}};
  const caffe::LayerParameter param = LayerOf(StrCat(
      "name: 'data' type: 'Data' top: 'x' top: 'y' data_param { source: '", Address(), "' }"));
  LayerInstance one(param, &data), two(param, &data);
  std::set<int> batches;
  for (int i = 0; i < 6; ++i) {
    for (LayerInstance* each : {&one, &two}) {
      each->Forward();
      batches.insert(static_cast<int>(each->Values(1)[0]) / kBatch);
      each->layer().EndIteration();
    }
  }
  EXPECT_EQ(batches.size(), 12u);
  EXPECT_EQ(counts().workers, 1u);
}

TEST_P(BatchService, SaysInOneLineWhatIsWrong) {
  Start();
  const auto error_of = [&](const std::string& address, const std::string& fields) {
    return SetUpError(LayerOf(StrCat("name: 'data' type: 'Data' top: 'x' top: 'y' data_param {",
                                     " source: '", address, "' ", fields)));
  };
  EXPECT_CONTAINS(error_of(Address("", "other"), "}"), "data_param.source[0]: batch://127.0.0.1:");
  EXPECT_CONTAINS(error_of(Address("", "other"), "}"), "there is no service 'other'");
  EXPECT_CONTAINS(error_of(Address("", "train/left"), "}"), "the service has the layers data");
  EXPECT_CONTAINS(error_of(Address(), "batch_size: 5 }"),
                  "data_param.batch_size: is 5, but batch:");
  EXPECT_CONTAINS(error_of(Address(), "batch_size: 5 }"), "gives batches of 4");
  EXPECT_EQ(error_of(Address(), "batch_size: 4 }"), "");
  EXPECT_CONTAINS(error_of(Address(), "shuffle: true }"), "data_param.shuffle: is set");
  EXPECT_CONTAINS(error_of(Address(), "rand_skip: 3 }"), "data_param.rand_skip: is set");
  EXPECT_CONTAINS(error_of(Address(), "} transform_param { scale: 2 }"),
                  "transform_param: is { scale: 2 }");
  EXPECT_EQ(error_of(Address(), "} transform_param { crop_size: 2 mirror: true scale: 0.5 }"), "");
  EXPECT_CONTAINS(error_of(Address(), StrCat("source: '", folder_ / "db", "' batch_size: 4 }")),
                  "expected no other source beside it");
  EXPECT_CONTAINS(error_of("batch://127.0.0.1:1/train?wait=0", "}"), "the service does not answer");
}

TEST_P(BatchService, EndsClearlyWhenTheServiceStaysAway) {
  Start();
  Worker worker(Address("&wait=0.2"));
  worker.Next();
  Stop();
  const std::string error = ErrorOf([&] {
    for (int i = 0; i < 100; ++i) worker.Next();
  });
  EXPECT_CONTAINS(error, "data layer 'data': batch://127.0.0.1:");
  EXPECT_CONTAINS(error, "the service does not answer");
}

TEST_P(BatchService, EndsAllWorkersWithTheReasonOfADamagedRecord) {
  WriteDb(folder_ / "mixed", {ByteDatum(0), ByteDatum(1), ByteDatum(2, 1, 9, 9)});
  net_text_ = StrCat("layer { name: 'data' type: 'Data' top: 'x' top: 'y' data_param { source: '",
                     folder_ / "mixed", "' batch_size: 3 } }");
  Start();
  Worker worker(Address());
  const std::string error = ErrorOf([&] { worker.Next(); });
  EXPECT_CONTAINS(error, "the service refuses: ");
  EXPECT_CONTAINS(error, folder_ / "mixed");
  EXPECT_TRUE(Eventually([&] { return server_->has_failed(); }));
}

TEST_P(BatchService, NeedsItsKey) {
  WriteFile(folder_ / "key", std::string(64, 'a'));
  WriteFile(folder_ / "other", std::string(64, 'b'));
  for (const char* name : {"key", "other"}) chmod((folder_ / name).c_str(), 0600);
  config_.key_file = folder_ / "key";
  Start();
  const auto connect = [&](const std::string& options) {
    return ErrorOf([&] { Worker worker(Address(options)); });
  };
  EXPECT_CONTAINS(connect(""), "it has a key, expected ?key_file=PATH");
  EXPECT_CONTAINS(connect("&key_file=" + folder_ / "other"), "it has not the service's key");
  Worker worker(Address("&key_file=" + (folder_ / "key")));
  EXPECT_EQ(worker.NextLabels(), LabelsOfBatch(0));
  Stop();
  config_.key_file = "";
  Start();
  EXPECT_CONTAINS(connect("&key_file=" + (folder_ / "key")), "it has no key");
}

TEST_P(BatchService, CannotBeMixedWithOtherSourcesInANet) {
  Start();
  DataService data{DataOptions{}};
  LayerInstance served(
      LayerOf(StrCat("name: 'a' type: 'Data' top: 'x' data_param { source: '", Address(), "' }")),
      &data);
  EXPECT_CONTAINS(ErrorOf([&] {
                    LayerInstance local(
                        LayerOf(StrCat("name: 'b' type: 'Data' top: 'x' data_param { source: '",
                                       folder_ / "db", "' batch_size: 4 }")),
                        &data);
                  }),
                  "is none, but the source of layer 'a' is one");
}

TEST_P(BatchService, RestoredPositionsOfOtherDataBeginAnew) {
  Start();
  DataService local{DataOptions{}};
  LayerInstance layer(LayerOf(StrCat("name: 'data' type: 'Data' top: 'x' data_param { source: '",
                                     folder_ / "db", "' batch_size: 4 }")),
                      &local);
  layer.Forward();
  layer.layer().EndIteration();
  LogWatch log;
  Worker worker(Address(), "data", local.Positions("train"));
  EXPECT_EQ(worker.NextLabels(), LabelsOfBatch(0));
  EXPECT_TRUE(log.Saw("it takes batches as a new worker"));
}

INSTANTIATE_TEST_SUITE_P(By, BatchService, testing::Values(Way::kMemory, Way::kConnection),
                         [](const auto& info) {
                           return std::string(info.param == Way::kMemory ? "Memory" : "Connection");
                         });

// Clients of which the test sees how batches come.
class BatchClients : public BatchService {};

TEST_P(BatchClients, UseTheMemoryUnlessTheAddressSaysNo) {
  Start();
  const auto client =
      BatchClient::Connect(ParseServiceAddress(Address().substr(std::string("batch:").size())));
  EXPECT_EQ(client->uses_memory(), GetParam() == Way::kMemory);
  client->Begin("data", kFirstSequenceId + 1, false);
  std::vector<BatchClient::View> views;
  for (uint64_t n = 0; n < config_.credit; ++n) {
    views.push_back(client->Get(n));
    EXPECT_EQ(views.back().values.size(), maker_->layers()[0].bytes);
  }
  // All credit is used: the next one comes when one is released.
  std::atomic<bool> has_got{false};
  std::thread getter([&] {
    client->Get(config_.credit);
    has_got = true;
  });
  EXPECT_FALSE(has_got);
  views.erase(views.begin());
  getter.join();
  EXPECT_TRUE(has_got);
}

TEST_P(BatchClients, MayAskForAnyNumberNext) {
  Start();
  const auto client =
      BatchClient::Connect(ParseServiceAddress(Address().substr(std::string("batch:").size())));
  client->Begin("data", kFirstSequenceId + 1, false);
  std::map<uint64_t, std::string> values;
  Rng rng(Seed(), {2});
  for (int i = 0; i < 300; ++i) {
    const uint64_t number = rng.Below(20);
    const std::string got(client->Get(number).values);
    client->MarkConsumed(number);
    const auto [found, is_new] = values.try_emplace(number, got);
    ASSERT_EQ(found->second, got) << number;
  }
}

INSTANTIATE_TEST_SUITE_P(By, BatchClients, testing::Values(Way::kMemory, Way::kConnection),
                         [](const auto& info) {
                           return std::string(info.param == Way::kMemory ? "Memory" : "Connection");
                         });

}  // namespace
}  // namespace millrace::test
