#include "millrace/data_source.h"

#include <atomic>

#include "base/registration.h"
#include "data/data_service.h"
#include "nn/layers/data/data_layers.h"
#include "test/data/test_db.h"
#include "test/support/support.h"

namespace millrace {
namespace {

std::atomic<int> records_alive{0}, records_made{0};

// Makes its records when they are read, each in memory of its own; "N" is the number of records.
class MadeUpSource : public DataSource {
 public:
  explicit MadeUpSource(const std::string& path) : path_(path), size_(std::stoull(path)) {
    if (size_ == 0) throw Error(path, ": expected at least one record");
  }
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  std::unique_ptr<RecordReader> MakeReader(bool) override { return std::make_unique<Reader>(); }

 private:
  struct Bytes {
    explicit Bytes(uint64_t index)
        : key(test::KeyOf(index)),
          value(test::ByteDatum(static_cast<int>(index)).SerializeAsString()) {
      ++records_alive;
      ++records_made;
    }
    ~Bytes() { --records_alive; }
    const std::string key, value;
  };
  class Reader : public RecordReader {
   public:
    RecordView At(uint64_t index) override {
      const auto bytes = std::make_shared<const Bytes>(index);
      return {bytes->key, bytes->value, 0, bytes};
    }
  };

  const std::string path_;
  const uint64_t size_;
};

const RegisterDataSource registered("made_up", [](const std::string& path) {
  return std::make_shared<MadeUpSource>(path);
});

caffe::LayerParameter LayerOver(const std::string& source) {
  caffe::LayerParameter param;
  param.set_name("data");
  param.set_type("Data");
  param.mutable_data_param()->add_source(source);
  param.mutable_data_param()->set_batch_size(4);
  return param;
}

TEST(DataSource, OfARegisteredTypeFeedsALayer) {
  records_made = 0;
  {
    DataService service{DataOptions()};
    const auto stream = service.Open("train", LayerOver("made_up:10"));
    EXPECT_EQ(stream->records(), 10u);
    int label = 0;
    for (int i = 0; i < 20; ++i) {
      Batch batch;
      ASSERT_TRUE(stream->Next(&batch));
      for (const int each : test::LabelsOf(batch)) EXPECT_EQ(each, label++ % 10);
      stream->MarkConsumed(batch.number);
    }
  }
  EXPECT_GE(records_made, 80);
  EXPECT_EQ(records_alive, 0);
}

TEST(DataSource, SharesTheRecordsOutAsADatabaseDoes) {
  test::TempDir folder;
  test::WriteLabels(folder / "db", 23);
  const auto labels = [](const std::string& source) {
    DataService service{DataOptions{9, 1, 3, nullptr}};
    caffe::LayerParameter layer = LayerOver(source);
    layer.mutable_data_param()->set_shuffle(true);
    const auto stream = service.Open("train", layer);
    std::vector<int> labels;
    for (int i = 0; i < 8; ++i) {
      Batch batch;
      EXPECT_TRUE(stream->Next(&batch));
      for (const int each : test::LabelsOf(batch)) labels.push_back(each);
      stream->MarkConsumed(batch.number);
    }
    return labels;
  };
  EXPECT_EQ(labels("made_up:23"), labels(folder / "db"));
}

TEST(DataSource, ThatCannotBeOpenedIsTheFieldsError) {
  DataService service{DataOptions()};
  try {
    service.Open("train", LayerOver("made_up:0"));
    ADD_FAILURE() << "opened";
  } catch (const FieldError& error) {
    EXPECT_EQ(error.field(), "data_param.source[0]");
    EXPECT_EQ(std::string(error.what()), "0: expected at least one record");
  }
  // Without a registered name it is a path.
  EXPECT_CONTAINS(test::ErrorOf([&] { service.Open("train", LayerOver("unknown:7")); }),
                  "unknown:7");
}

TEST(DataSourceRegistry, ListsItsTypesAndRefusesNamesThatAPathCouldHave) {
  DataSourceRegistry& registry = DataSourceRegistry::Get();
  EXPECT_EQ(registry.Names(), (std::vector<std::string>{"batch", "made_up"}));
  EXPECT_EQ(registry.Open("made_up"), nullptr);
  for (const char* name : {"", "a/b", "A", "a b"}) {
    registry.Register(name, nullptr);
    const std::vector<std::string> mistakes = TakeBadRegistrations();
    ASSERT_EQ(mistakes.size(), 1u);
    EXPECT_CONTAINS(mistakes[0], "lower-case letters");
  }
}

}  // namespace
}  // namespace millrace
