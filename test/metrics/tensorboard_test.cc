#include "metrics/tensorboard_writer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/files/file.h"
#include "proto/tensorboard.pb.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

MetricsRow TrainRow(int iteration, double loss) {
  MetricsRow row;
  row.set_iter(iteration);
  row.mutable_train()->set_loss(loss);
  row.mutable_train()->set_learning_rate(0.5);
  return row;
}

// The events of a file whose records have the lengths and checksums that their bytes require.
std::vector<tensorboard::Event> ReadEvents(const std::string& path) {
  std::string bytes = ReadFile(path);
  std::vector<tensorboard::Event> events;
  while (!bytes.empty()) {
    uint64_t length = 0;
    if (bytes.size() < sizeof(length)) break;
    std::memcpy(&length, bytes.data(), sizeof(length));
    const std::string event = bytes.substr(12, length);
    EXPECT_EQ(TensorboardRecord(event), bytes.substr(0, 16 + length));
    EXPECT_TRUE(events.emplace_back().ParseFromString(event));
    bytes.erase(0, 16 + length);
  }
  return events;
}

// Values that TensorFlow's own writer gives for these bytes.
TEST(TensorboardRecordTest, HasMaskedChecksums) {
  const std::string record = TensorboardRecord("");
  EXPECT_EQ(record, std::string("\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2", 16));
}

TEST(TensorboardWriterTest, WritesTrainingAndTests) {
  TempDir folder;
  std::string path;
  {
    TensorboardWriter writer(folder / "new/logs");
    path = writer.path();
    writer.Write(TrainRow(100, 0.25));
    MetricsRow test;
    test.set_iter(200);
    (*test.mutable_test()->mutable_outputs())["accuracy"] = 0.75;
    writer.Write(test);
    test.mutable_test()->set_net(1);
    writer.Write(test);
    writer.Write(MetricsRow());  // has no value
  }
  EXPECT_CONTAINS(path, folder / "new/logs/events.out.tfevents.");
  const auto events = ReadEvents(path);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].step(), 100);
  EXPECT_GT(events[1].wall_time(), 1.7e9);
  ASSERT_EQ(events[1].summary().value_size(), 2);
  EXPECT_EQ(events[1].summary().value(0).tag(), "train/loss");
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.25f);
  EXPECT_EQ(events[2].summary().value(0).tag(), "test/accuracy");
  EXPECT_EQ(events[3].summary().value(0).tag(), "test1/accuracy");
}

TEST(TensorboardWriterTest, NamesAFolderThatCannotBe) {
  EXPECT_CONTAINS(ErrorOf([] { TensorboardWriter("/proc/none"); }), "/proc/none");
}

}  // namespace
}  // namespace millrace::test
