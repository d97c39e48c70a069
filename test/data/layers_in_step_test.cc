// Several data layers of one net: records that belong together stay together, whatever draws,
// shuffles, resumes and shares them.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/rng.h"
#include "data/data_service.h"
#include "proto/parse.h"
#include "test/data/layer_instance.h"
#include "test/data/test_db.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using Pair = std::pair<int, int>;  // a record of each of two layers

// Two databases of records that have their number as label.
class LayersInStep : public testing::Test {
 protected:
  caffe::LayerParameter Layer(const std::string& name, int records, int batch_size = 4) {
    const std::string path = folder_ / StrCat("db", records);
    if (made_.insert(records).second) WriteLabels(path, records);
    caffe::LayerParameter layer = LayerOf(StrCat("type: 'Data' top: 'x' data_param { source: '",
                                                 path, "' batch_size: ", batch_size, " }"));
    layer.set_name(name);
    return layer;
  }
  caffe::LayerParameter Shuffled(const std::string& name, int records) {
    caffe::LayerParameter layer = Layer(name, records);
    layer.mutable_data_param()->set_shuffle(true);
    return layer;
  }
  // A list of images; they need not exist.
  caffe::LayerParameter List(const std::string& name, const std::string& file, int images) {
    std::string lines;
    for (int i = 0; i < images; ++i) lines += StrCat(i, ".png ", i, "\n");
    WriteFile(folder_ / file, lines);
    caffe::LayerParameter layer =
        LayerOf(StrCat("type: 'ImageData' top: 'x' image_data_param { source: '", folder_ / file,
                       "' batch_size: 4 shuffle: true }"));
    layer.set_name(name);
    return layer;
  }

  TempDir folder_;
  std::set<int> made_;
};

// The streams of the data layers of a net.
using Streams = std::vector<std::shared_ptr<BatchStream>>;

Streams Open(DataService* service, const std::vector<caffe::LayerParameter>& layers) {
  Streams streams;
  for (const auto& layer : layers) streams.push_back(service->Open("train", layer));
  return streams;
}

std::string ErrorOfOpen(const DataOptions& options,
                        const std::vector<caffe::LayerParameter>& layers) {
  return ErrorOf([&] {
    DataService service(options);
    Open(&service, layers);
  });
}

// The pairs of the next pass of `net`, whose second layer may be ahead of the first.
std::vector<Pair> NextPairs(const Streams& streams, int net = 0) {
  Batch first, second;
  EXPECT_TRUE(streams[0]->Next(&first, net));
  EXPECT_TRUE(streams[1]->Next(&second, net));
  EXPECT_EQ(first.number, second.number);
  const std::vector<int> a = LabelsOf(first), b = LabelsOf(second);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < a.size(); ++i) pairs.emplace_back(a[i], b.at(i));
  for (const auto& stream : streams) stream->MarkConsumed(first.number);
  return pairs;
}

void ExpectEqual(const std::vector<Pair>& pairs) {
  for (const auto& [a, b] : pairs) EXPECT_EQ(a, b);
}

// Numbers of the batches that each of `nets` takes from a stream, as threads that pause at random.
std::map<int, std::vector<uint64_t>> TakeInThreads(const Streams& streams, int nets, int passes) {
  ErrorSink errors;
  std::mutex mutex;
  std::vector<std::map<int, std::vector<uint64_t>>> taken(streams.size());
  std::vector<std::unique_ptr<Thread>> threads;
  for (int net = 0; net < nets; ++net) {
    for (size_t layer = 0; layer < streams.size(); ++layer) {
      threads.push_back(std::make_unique<Thread>(
          "fetch",
          [&, net, layer] {
            Rng rng(Seed(), {static_cast<uint64_t>(net), layer});
            Batch batch;
            for (int pass = 0; pass < passes; ++pass) {
              // Rarely: beside busy programs, a yield costs the time slices of all of them.
              if (rng.Below(16) == 0) boost::this_thread::yield();
              if (!streams[layer]->Next(&batch, net)) throw Error("the stream was stopped");
              std::lock_guard lock(mutex);
              taken[layer][net].push_back(batch.number);
            }
          },
          &errors));
    }
  }
  for (auto& thread : threads) thread->Join();
  EXPECT_NO_THROW(errors.RethrowIfFailed());
  for (const auto& each : taken) EXPECT_EQ(each, taken[0]);
  return taken[0];
}

TEST_F(LayersInStep, TakeTheBatchesOfTheSameNumbersInEveryNet) {
  for (const int consumers : {0, 3}) {
    DataOptions options;
    options.consumers = consumers;
    DataService service(options);
    caffe::LayerParameter ahead = Layer("b", 50);
    ahead.mutable_data_param()->set_prefetch(30);
    const Streams streams = Open(&service, {Layer("a", 50), ahead, Layer("c", 7)});
    std::set<uint64_t> all;
    for (const auto& [net, numbers] : TakeInThreads(streams, 3, 100)) {
      all.insert(numbers.begin(), numbers.end());
    }
    EXPECT_EQ(all.size(), 300u);
    EXPECT_EQ(*all.rbegin(), 299u);
  }
}

TEST_F(LayersInStep, HoldNoNetUpThatAnotherOneHasLeft) {
  DataService service{DataOptions()};
  const Streams streams = Open(&service, {Layer("a", 50), Layer("b", 50)});
  Batch batch;
  // Net 0 ends after its first layer has drawn two batches.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(streams[0]->Next(&batch, 0));
  for (int pass = 0; pass < 40; ++pass) ExpectEqual(NextPairs(streams, 1));
  const caffe::StreamPosition position = streams[1]->Position();
  EXPECT_EQ(position.next_batch(), 42u);
  ASSERT_EQ(position.outstanding_size(), 2);  // a resumed run takes them first
  EXPECT_EQ(position.outstanding(1), 1u);
}

TEST_F(LayersInStep, ShuffleAlike) {
  DataOptions options;
  options.seed = Seed();
  for (const int shards : {1, 3}) {
    std::set<int> seen;
    for (int shard = 0; shard < shards; ++shard) {
      options.shard_index = shard;
      options.shard_count = shards;
      DataService service(options);
      const Streams streams = Open(&service, {Shuffled("a", 60), Shuffled("b", 60)});
      std::vector<int> first, second;
      for (int pass = 0; pass < 15; ++pass) {
        for (const auto& [a, b] : NextPairs(streams)) {
          EXPECT_EQ(a, b);
          first.push_back(a);
          if (static_cast<int>(first.size()) <= 60 / shards) seen.insert(a);
        }
      }
      EXPECT_FALSE(std::is_sorted(first.begin(), first.begin() + 60 / shards));
    }
    EXPECT_EQ(seen.size(), 60u);
  }
}

TEST_F(LayersInStep, FollowOneSampler) {
  DataOptions options;
  options.seed = Seed();
  options.sampler.set_type("shuffle");
  {
    DataService service(options);
    const Streams streams = Open(&service, {Layer("a", 60), Layer("b", 60), Layer("one", 1)});
    std::vector<int> first;
    for (int pass = 0; pass < 15; ++pass) {
      for (const auto& [a, b] : NextPairs(streams)) {
        EXPECT_EQ(a, b);
        first.push_back(a);
      }
    }
    EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  }
  EXPECT_EQ(ErrorOfOpen(options, {Layer("a", 60), Layer("b", 40)}),
            "has 40 records, but layer 'a' has 60: the sampler shuffle gives the "
            "layers of a net one order, expected equal numbers of records");
}

TEST_F(LayersInStep, FollowTheLabelsOfOneLayer) {
  DataOptions options;
  options.seed = Seed();
  options.sampler.set_type("weighted");
  (*options.sampler.mutable_param())["7"] = 50;
  WriteDb(folder_ / "unlabelled", std::vector<caffe::Datum>(60, ByteDatum(0)));
  caffe::LayerParameter unlabelled = Layer("b", 60);
  unlabelled.mutable_data_param()->set_source(0, folder_ / "unlabelled");
  DataService service(options);
  Streams streams = Open(&service, {Layer("a", 60), unlabelled, Layer("c", 60)});
  std::swap(streams[1], streams[2]);
  int sevens = 0;
  for (int pass = 0; pass < 20; ++pass) {
    const std::vector<Pair> pairs = NextPairs(streams);
    ExpectEqual(pairs);
    for (const auto& [a, b] : pairs) sevens += a == 7;
  }
  EXPECT_GT(sevens, 15);  // of 80, about 37
  options.sampler.clear_param();
  EXPECT_CONTAINS(ErrorOfOpen(options, {unlabelled, Layer("a", 60)}),
                  "has other labels than layer 'b', by whose labels the sampler weighted orders");
}

TEST_F(LayersInStep, AreRefusedIfTheyCannotBeShuffledAlike) {
  EXPECT_EQ(
      ErrorOfOpen({}, {Shuffled("a", 60), Shuffled("b", 40)}),
      "is shuffled and has 40 records, but layer 'a' has 60: records that "
      "belong together would not stay together; expected shuffle in both layers or in neither, "
      "and equal numbers of records");
  EXPECT_CONTAINS(ErrorOfOpen({}, {Shuffled("a", 60), Layer("b", 60)}),
                  "is not shuffled, but layer 'a' is");
  EXPECT_CONTAINS(ErrorOfOpen({}, {Layer("a", 60), Shuffled("b", 60)}),
                  "is shuffled, but layer 'a' is not");
  EXPECT_CONTAINS(ErrorOfOpen({}, {List("a", "60", 60), Shuffled("b", 40)}), "layer 'a' has 60");
}

TEST_F(LayersInStep, AreNotRefusedIfNoRecordsBelongTogether) {
  DataService one{DataOptions()}, lists{DataOptions()};
  Open(&one, {Layer("a", 1), Shuffled("b", 60)});
  // Caffe itself shuffles these, each on its own.
  const Streams streams = Open(&lists, {List("a", "60", 60), List("b", "40", 40)});
  EXPECT_NE(streams[0]->options().order, streams[1]->options().order);
}

// The records of a shuffled list, of which one layer takes its numbers.
std::vector<uint64_t> OrderOf(const BatchStream& stream) {
  ScheduleOptions options;
  options.sizes = {stream.source(0).size()};
  options.shuffle = stream.options().shuffle;
  options.groups = stream.options().groups;
  options.seed = stream.seed();
  options.stream = stream.options().order;
  const Schedule schedule(options);
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < 2 * options.sizes[0]; ++i) order.push_back(schedule.At(i).index);
  return order;
}

TEST_F(LayersInStep, ShuffleListsAlikeUnlessTheyAreOneList) {
  DataService service{DataOptions()};
  const Streams streams =
      Open(&service, {List("a", "x", 60), List("b", "y", 60), List("same", "x", 60)});
  EXPECT_EQ(OrderOf(*streams[0]), OrderOf(*streams[1]));
  // A net that compares the images of one list must not compare each with itself.
  EXPECT_NE(OrderOf(*streams[0]), OrderOf(*streams[2]));
}

// Layers of different lengths begin again each on its own. Over all shards, the pairs are those of
// one process that reads all in order.
TEST_F(LayersInStep, OfDifferentLengthsMakeTheSamePairsInAllShards) {
  for (const bool longer_first : {false, true}) {
    for (const uint64_t shards : {1, 7}) {
      std::set<Pair> pairs, expected;
      for (int i = 0; i < 60; ++i) expected.insert({i, i % 25});
      for (uint64_t shard = 0; shard < shards; ++shard) {
        DataOptions options;
        options.shard_index = shard;
        options.shard_count = shards;
        DataService service(options);
        const std::vector<caffe::LayerParameter> layers = {Layer("a", 60, 1), Layer("b", 25, 1)};
        Streams streams = Open(&service, longer_first ? layers : std::vector{layers[1], layers[0]});
        if (!longer_first) std::swap(streams[0], streams[1]);
        const uint64_t epoch = ShardRecords(shard, shards, 60);
        for (uint64_t pass = 0; pass < epoch; ++pass) {
          for (const Pair& pair : NextPairs(streams)) pairs.insert(pair);
        }
        // The next epoch goes on in the shorter layer.
        for (const auto& [a, b] : NextPairs(streams)) EXPECT_EQ(b, (60 + a) % 25);
      }
      EXPECT_EQ(pairs, expected);
    }
  }
}

TEST_F(LayersInStep, StayThereWhenTheShardsOfOthersAreSharedOut) {
  DataOptions options;
  options.shard_count = 3;
  DataService service(options);
  const Streams streams = Open(&service, {Layer("a", 50), Layer("b", 50)});
  Rng rng(Seed(), {0});
  std::set<int> seen;
  // How far the readers are ahead at a change decides which records come next.
  for (int pass = 0; pass < 200 || (pass < 10'000 && seen.size() < 50); ++pass) {
    if (pass % 7 == 0) {
      const uint64_t absent = rng.Below(4);
      service.SetAbsentShards(absent == 0   ? std::vector<uint64_t>{}
                              : absent == 3 ? std::vector<uint64_t>{1, 2}
                                            : std::vector<uint64_t>{absent});
    }
    for (const auto& [a, b] : NextPairs(streams)) {
      ASSERT_EQ(a, b);
      seen.insert(a);
    }
  }
  EXPECT_EQ(seen.size(), 50u);
}

TEST_F(LayersInStep, AreMovedTogether) {
  DataService service{DataOptions()};
  const Streams streams = Open(&service, {Layer("a", 50), Layer("b", 50)});
  Batch batch;
  for (const uint64_t number : {9, 2, 2, 30}) {
    service.Seek("train", number);
    const std::vector<Pair> pairs = NextPairs(streams);
    ExpectEqual(pairs);
    EXPECT_EQ(pairs[0].first, static_cast<int>(4 * number % 50));
    ASSERT_TRUE(streams[1]->Next(&batch));  // one layer is ahead when they are moved
  }
}

// Several nets train, are interrupted at any moment and resumed by another number of nets: pairs
// stay pairs, and no batch is lost or repeated.
TEST_F(LayersInStep, ResumeInStep) {
  for (uint64_t round = 0; round < 10; ++round) {
    Rng rng(Seed(), {round});
    std::vector<caffe::StreamPosition> positions;
    std::map<int, int> trained;  // by record; every batch is one
    for (int sitting = 0; sitting < 5; ++sitting) {
      DataService service{DataOptions()};
      service.Restore("train", positions);
      const Streams streams = Open(&service, {Layer("a", 1000, 1), Layer("b", 1000, 1)});
      const int nets = 1 + static_cast<int>(rng.Below(3));
      Batch batch;
      for (int pass = 0; pass < 20; ++pass) {
        const int net = static_cast<int>(rng.Below(nets));
        for (const auto& [a, b] : NextPairs(streams, net)) {
          EXPECT_EQ(a, b);
          EXPECT_EQ(++trained[a], 1);
        }
      }
      // Layers read ahead of their nets.
      for (const auto& stream : streams) {
        for (uint64_t i = rng.Below(3); i > 0; --i) ASSERT_TRUE(stream->Next(&batch, 0));
      }
      positions = service.Positions("train");
      EXPECT_EQ(positions[0].next_batch(), positions[1].next_batch());
    }
    EXPECT_EQ(trained.size(), 100u);
    EXPECT_EQ(trained.rbegin()->first, 99);
  }
}

TEST_F(LayersInStep, ResumeInStepFromPositionsThatAreNot) {
  DataService before{DataOptions()}, after{DataOptions()};
  Open(&before, {Layer("a", 50), Layer("b", 50)});
  std::vector<caffe::StreamPosition> positions = before.Positions("train");
  positions[0].set_next_batch(9);
  positions[0].add_outstanding(4);
  positions[1].set_next_batch(8);
  positions[1].add_outstanding(6);
  after.Restore("train", positions);
  const Streams streams = Open(&after, {Layer("a", 50), Layer("b", 50)});
  for (const uint64_t number : {4, 6, 8, 9}) {
    const std::vector<Pair> pairs = NextPairs(streams);
    ExpectEqual(pairs);
    EXPECT_EQ(pairs[0].first, static_cast<int>(4 * number % 50));
  }
}

TEST_F(LayersInStep, ResumeWithAnotherBatchSizeOrNumberOfRecords) {
  const auto position_after = [&](int passes) {
    DataService service{DataOptions()};
    const Streams streams = Open(&service, {Layer("a", 50, 8), Layer("b", 50, 8)});
    for (int pass = 0; pass < passes; ++pass) NextPairs(streams);
    return service.Positions("train");
  };
  struct Case {
    int passes, records, batch_size;
    uint64_t record;  // with which it goes on
  };
  for (const Case& each : std::vector<Case>{{3, 50, 4, 24},
                                            {3, 50, 16, 24},
                                            {3, 50, 5, 24},
                                            {3, 300, 8, 24},
                                            {8, 300, 8, 14},  // 14 into the second epoch
                                            {3, 20, 8, 0},    // the record is gone: the next epoch
                                            {3, 300, 3, 24}}) {
    DataService service{DataOptions()};
    service.Restore("train", position_after(each.passes));
    const auto layers = std::vector{Layer("a", each.records, each.batch_size),
                                    Layer("b", each.records, each.batch_size)};
    Streams streams = Open(&service, layers);
    std::vector<Pair> pairs = NextPairs(streams);
    ExpectEqual(pairs);
    EXPECT_EQ(pairs[0].first, static_cast<int>(each.record));
    // A second resume goes on exactly.
    DataService again{DataOptions()};
    again.Restore("train", service.Positions("train"));
    streams = Open(&again, layers);
    EXPECT_EQ(NextPairs(streams)[0].first,
              static_cast<int>((each.record + each.batch_size) % each.records));
  }
}

}  // namespace
}  // namespace millrace::test
