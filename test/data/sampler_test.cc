// Which records the processes of a run read: by the sampler, over layers of every type.
#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "data/data_service.h"
#include "proto/parse.h"
#include "test/data/test_db.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

caffe::LayerParameter DataLayer(const std::vector<std::string>& sources, int batch_size) {
  caffe::LayerParameter layer;
  layer.set_name("data");
  layer.set_type("Data");
  for (const std::string& source : sources) layer.mutable_data_param()->add_source(source);
  layer.mutable_data_param()->set_batch_size(batch_size);
  return layer;
}

caffe::PartParameter Named(const std::string& type, const PartValues& values = {}) {
  caffe::PartParameter part;
  part.set_type(type);
  for (const auto& [name, value] : values) (*part.mutable_param())[name] = value;
  return part;
}

// Process `index` of `count`.
DataOptions Process(uint64_t index, uint64_t count, const caffe::PartParameter& sampler,
                    uint64_t seed = 5) {
  return {.seed = seed, .shard_index = index, .shard_count = count, .sampler = sampler};
}

// The labels of the next `batches` batches.
std::vector<int> Labels(BatchStream* stream, int batches) {
  std::vector<int> labels;
  for (int i = 0; i < batches; ++i) {
    Batch batch;
    EXPECT_TRUE(stream->Next(&batch));
    for (const int label : LabelsOf(batch)) labels.push_back(label);
    stream->MarkConsumed(batch.number);
  }
  return labels;
}

std::vector<int> Labels(const DataOptions& options, const caffe::LayerParameter& layer, int batches,
                        const std::string& scope = "train") {
  DataService service(options);
  return Labels(service.Open(scope, layer).get(), batches);
}

std::vector<int> Sorted(std::vector<int> labels) {
  std::sort(labels.begin(), labels.end());
  return labels;
}

std::vector<int> UpTo(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  return all;
}

// Two databases with labels 0 to 23.
struct Databases {
  Databases() : paths{folder / "a", folder / "b"} {
    WriteLabels(paths[0], 16);
    WriteLabels(paths[1], 8, 16);
  }

  TempDir folder;
  std::vector<std::string> paths;
};

TEST(Sampler, ShardIsTheOrderWithoutASampler) {
  const Databases databases;
  const caffe::LayerParameter layer = DataLayer(databases.paths, 4);
  for (uint64_t shard = 0; shard < 2; ++shard) {
    EXPECT_EQ(Labels(Process(shard, 2, Named("shard")), layer, 7),
              Labels(Process(shard, 2, {}), layer, 7));
  }
}

TEST(Sampler, ShuffleReadsEachRecordOncePerEpochOverAllProcessesInANewOrder) {
  const Databases databases;
  for (const int processes : {1, 2, 3}) {
    const caffe::LayerParameter layer = DataLayer(databases.paths, 24 / processes);
    std::vector<std::vector<int>> of_process;
    for (int i = 0; i < processes; ++i) {
      of_process.push_back(Labels(Process(i, processes, Named("shuffle")), layer, 3));
    }
    std::set<std::vector<int>> orders;
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::vector<int> all, first;
      for (const std::vector<int>& labels : of_process) {
        const auto begin = labels.begin() + epoch * 24 / processes;
        first = {begin, begin + 24 / processes};
        all.insert(all.end(), first.begin(), first.end());
      }
      EXPECT_EQ(Sorted(all), UpTo(24)) << processes << " processes, epoch " << epoch;
      orders.insert(all);
    }
    EXPECT_EQ(orders.size(), 3u);
    // Process 0 does not read the records 0, n, 2n ... in another order, as a layer's shuffle does.
    if (processes == 1) continue;
    const std::vector<int> shard = Labels(Process(0, processes, {}), layer, 1);
    const std::vector<int> epoch(of_process[0].begin(), of_process[0].begin() + 24 / processes);
    EXPECT_NE(Sorted(epoch), Sorted(shard));
  }
}

TEST(Sampler, ShuffleDependsOnTheSeedAlone) {
  const Databases databases;
  const caffe::LayerParameter layer = DataLayer(databases.paths, 24);
  const std::vector<int> order = Labels(Process(0, 1, Named("shuffle"), 5), layer, 1);
  EXPECT_EQ(Labels(Process(0, 1, Named("shuffle"), 5), layer, 1), order);
  EXPECT_NE(Labels(Process(0, 1, Named("shuffle"), 6), layer, 1), order);
}

TEST(Sampler, ShuffleContinuesFromASavedPosition) {
  const Databases databases;
  const caffe::LayerParameter layer = DataLayer(databases.paths, 5);
  const std::vector<int> whole = Labels(Process(0, 2, Named("shuffle")), layer, 9);
  DataService first(Process(0, 2, Named("shuffle"))), second(Process(0, 2, Named("shuffle")));
  std::vector<int> parts = Labels(first.Open("train", layer).get(), 4);
  second.Restore("train", first.Positions("train"));
  for (const int label : Labels(second.Open("train", layer).get(), 5)) parts.push_back(label);
  EXPECT_EQ(parts, whole);
}

TEST(Sampler, ShuffleCoversTheRecordsOfAnAbsentProcess) {
  const Databases databases;
  const caffe::LayerParameter layer = DataLayer(databases.paths, 12);
  std::vector<int> all;
  for (const uint64_t shard : {0, 2}) {
    DataService service(Process(shard, 3, Named("shuffle")));
    service.SetAbsentShards({1});
    for (const int label : Labels(service.Open("train", layer).get(), 1)) all.push_back(label);
  }
  EXPECT_EQ(Sorted(all), UpTo(24));
}

TEST(Sampler, SameGivesAllProcessesTheSameBatches) {
  const Databases databases;
  caffe::LayerParameter layer = DataLayer(databases.paths, 6);
  const std::vector<int> first = Labels(Process(0, 3, Named("same")), layer, 4);
  EXPECT_EQ(Sorted(first), UpTo(24));
  EXPECT_EQ(Labels(Process(2, 3, Named("same")), layer, 4), first);
  layer.mutable_data_param()->set_shuffle(true);
  const std::vector<int> shuffled = Labels(Process(0, 3, Named("same")), layer, 4);
  EXPECT_NE(shuffled, first);
  EXPECT_EQ(Labels(Process(1, 3, Named("same")), layer, 4), shuffled);
  // Nobody's records are missing when a process is absent.
  DataService service(Process(0, 3, Named("same")));
  service.SetAbsentShards({1});
  EXPECT_EQ(Labels(service.Open("train", layer).get(), 4), shuffled);
}

TEST(Sampler, AppliesToTheTrainingDataOnly) {
  const Databases databases;
  const caffe::LayerParameter layer = DataLayer(databases.paths, 24);
  EXPECT_EQ(Labels(Process(0, 1, Named("shuffle")), layer, 1, "test0"),
            Labels(Process(0, 1, {}), layer, 1));
}

// A database in which label 0 has 20 records, label 1 ten, and label 2 two.
std::string Unbalanced(const TempDir& folder) {
  std::vector<caffe::Datum> datums;
  for (const auto& [label, count] : std::map<int, int>{{0, 20}, {1, 10}, {2, 2}}) {
    for (int i = 0; i < count; ++i) datums.push_back(ByteDatum(label));
  }
  WriteDb(folder / "db", datums);
  return folder / "db";
}

// How often each label comes, as a fraction.
std::map<int, double> Fractions(const std::vector<int>& labels) {
  std::map<int, double> fractions;
  for (const int label : labels) fractions[label] += 1.0 / static_cast<double>(labels.size());
  return fractions;
}

TEST(Sampler, WeightedDrawsAllLabelsEquallyOftenByDefault) {
  const TempDir folder;
  const caffe::LayerParameter layer = DataLayer({Unbalanced(folder)}, 1000);
  const auto fractions = Fractions(Labels(Process(0, 1, Named("weighted")), layer, 12));
  // The standard deviation of a fraction is 0.0043.
  for (const int label : {0, 1, 2}) EXPECT_NEAR(fractions.at(label), 1.0 / 3, 0.025) << label;
}

TEST(Sampler, WeightedDrawsRecordsByTheWeightsOfTheirLabels) {
  const TempDir folder;
  const caffe::LayerParameter layer = DataLayer({Unbalanced(folder)}, 1000);
  const auto fractions =
      Fractions(Labels(Process(1, 2, Named("weighted", {{"0", 0}, {"2", 5}})), layer, 12));
  EXPECT_EQ(fractions.count(0), 0u);
  EXPECT_NEAR(fractions.at(1), 0.5, 0.03);  // 10 records of weight 1, 2 of weight 5
  EXPECT_NEAR(fractions.at(2), 0.5, 0.03);
}

TEST(Sampler, WeightedDrawsDifferBetweenProcessesAndEpochs) {
  const Databases databases;
  const caffe::LayerParameter layer = DataLayer(databases.paths, 12);
  std::set<std::vector<int>> batches;
  for (int process = 0; process < 2; ++process) {
    const std::vector<int> labels = Labels(Process(process, 2, Named("weighted")), layer, 3);
    for (int i = 0; i < 3; ++i) {
      batches.insert({labels.begin() + i * 12, labels.begin() + (i + 1) * 12});
    }
  }
  EXPECT_EQ(batches.size(), 6u);
}

TEST(Sampler, WeightedTakesTheLabelsOfAnImageListFromTheList) {
  const TempDir folder;
  WriteFile(folder / "list.txt", "a.jpg 0\nb.jpg 0\nc.jpg 0\nd.jpg 7\n");  // no such files
  caffe::LayerParameter layer;
  layer.set_name("data");
  layer.set_type("ImageData");
  layer.mutable_image_data_param()->set_source(folder / "list.txt");
  layer.mutable_image_data_param()->set_batch_size(4);
  DataService service(Process(0, 1, Named("weighted", {{"7", 3}})));
  EXPECT_NE(service.Open("train", layer), nullptr);
  DataService refused(Process(0, 1, Named("weighted", {{"6", 3}})));
  EXPECT_EQ(ErrorOf([&] { refused.Open("train", layer); }),
            "the sampler weighted has a weight of label 6, which no record of the data has");
}

TEST(Sampler, RefusesLayersThatCannotBeReadInItsOrder) {
  const Databases databases;
  const auto refusal = [&](const std::string& sampler, const caffe::LayerParameter& layer) {
    DataService service(Process(0, 1, Named(sampler)));
    try {
      service.Open("train", layer);
    } catch (const FieldError& error) {
      return error.field() + ": " + error.what();
    }
    return std::string("none");
  };
  caffe::LayerParameter annotated = DataLayer(databases.paths, 4);
  annotated.set_type("AnnotatedData");
  EXPECT_EQ(refusal("shuffle", annotated), "none");
  EXPECT_EQ(
      refusal("weighted", annotated),
      "type: the records of a layer of type AnnotatedData do not have one label each, expected "
      "another sampler than weighted");
  const TempDir folder;
  WriteFile(folder / "list.txt", "a.jpg b.png\nc.jpg d.png\n");
  caffe::LayerParameter pairs;
  pairs.set_name("data");
  pairs.set_type("DenseImageData");
  pairs.mutable_dense_image_data_param()->set_source(folder / "list.txt");
  pairs.mutable_dense_image_data_param()->set_batch_size(1);
  EXPECT_EQ(refusal("shuffle", pairs), "none");
  EXPECT_NE(refusal("weighted", pairs), "none");
  WriteFile(folder / "windows.txt", "# 0\na.jpg\n3\n10\n10\n2\n1 0.9 0 0 5 5\n0 0.1 2 2 6 6\n");
  caffe::LayerParameter windows;
  windows.set_name("data");
  windows.set_type("WindowData");
  windows.mutable_window_data_param()->set_source(folder / "windows.txt");
  windows.mutable_window_data_param()->set_batch_size(4);
  EXPECT_EQ(refusal("same", windows), "none");
  EXPECT_EQ(refusal("shuffle", windows),
            "type: the records of a layer of type WindowData have an order of their own, expected "
            "the sampler shard or same, not shuffle");
}

TEST(Sampler, RefusesWeightsThatExcludeEverything) {
  const TempDir folder;
  const caffe::LayerParameter layer = DataLayer({Unbalanced(folder)}, 4);
  DataService service(Process(0, 1, Named("weighted", {{"0", 0}, {"1", 0}, {"2", 0}})));
  EXPECT_EQ(ErrorOf([&] { service.Open("train", layer); }),
            "the sampler weighted: the weights of all labels are 0");
}

// A sampler of a program: every number has the record `record`.
class OneRecord : public Sampler {
 public:
  explicit OneRecord(double record) : record_(static_cast<uint64_t>(record)) {}
  uint64_t Record(uint64_t, uint64_t) const override { return record_; }

 private:
  const uint64_t record_;
};

const RegisterSampler one_record(
    {.name = "one_record",
     .parameters = {{.name = "record", .default_value = 3, .most = 1000, .whole = true}}},
    [](const SampledData& data, const PartValues& values) {
      EXPECT_EQ(data.total, 24u);
      return std::make_shared<OneRecord>(values.at("record"));
    });

TEST(Sampler, OfAProgramHasTheDefaultsOfItsParameters) {
  const Databases databases;
  const caffe::LayerParameter layer = DataLayer(databases.paths, 4);
  EXPECT_EQ(Sorted(Labels(Process(0, 1, Named("one_record")), layer, 1)).front(),
            Sorted(Labels(Process(0, 1, Named("one_record", {{"record", 3}})), layer, 1)).back());
  EXPECT_NE(Labels(Process(0, 1, Named("one_record", {{"record", 4}})), layer, 1),
            Labels(Process(0, 1, Named("one_record")), layer, 1));
}

TEST(Sampler, ARecordThatTheDataDoNotHaveIsAnError) {
  const Databases databases;
  DataService service(Process(0, 1, Named("one_record", {{"record", 24}})));
  const std::string error =
      ErrorOf([&] { Labels(service.Open("train", DataLayer(databases.paths, 4)).get(), 1); });
  EXPECT_CONTAINS(error, "the sampler gives record 24, expected one below 24");
}

TEST(Sampler, OfAnUnknownNameIsRefusedWithTheSolverFile) {
  const auto refusal = [](const caffe::PartParameter& sampler) {
    caffe::SolverParameter param;
    *param.mutable_sampler() = sampler;
    try {
      CheckSampler(param);
    } catch (const FieldError& error) {
      return error.field() + ": " + error.what();
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal(Named("random")),
            "sampler.type: unknown sampler 'random', expected one of one_record, same, shard, "
            "shuffle, weighted");
  EXPECT_EQ(refusal({}),
            "sampler.type: is missing, expected one of one_record, same, shard, shuffle, weighted");
  EXPECT_EQ(refusal(Named("shuffle", {{"x", 1}})),
            "sampler.param: sampler shuffle has no parameter 'x', expected none");
  EXPECT_EQ(refusal(Named("weighted", {{"3", -1}})),
            "sampler.param: 3 is -1, expected a number >= 0");
  EXPECT_EQ(refusal(Named("shard")), "none");
}

}  // namespace
}  // namespace millrace::test
