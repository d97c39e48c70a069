// Reading a replica in the memory of a device while a solver changes it.
#include "weights/weight_reader.h"

#include "cluster/termination_detector.h"
#include "test/gpu/gpu_support.h"
#include "test/support/test_thread.h"

namespace millrace::test {
namespace {

class WeightReaders : public OnChosenDevice {};

INSTANTIATE_TEST_SUITE_P(Devices, WeightReaders, testing::ValuesIn(DeviceChoices()),
                         DeviceChoiceName);

// More than two pieces.
constexpr int64_t kWeightReaderSize = 2'500'000;

TEST_P(WeightReaders, GiveEachUpdateWholeOrNotAtAll) {
  DeviceWeights weights(&first(), kWeightReaderSize);
  const WeightReader reader(&weights);
  ASSERT_EQ(reader.size(), kWeightReaderSize);
  IterationClock clock;
  std::atomic<bool> reads{true};
  std::atomic<int> updates{0};
  TestThread thread([&] {
    AddingSolver solver(std::make_unique<DeviceStrategy>(&weights, &clock), kWeightReaderSize, 1);
    while (reads) {
      solver.Iterate(1);
      ++updates;
    }
    solver.Finish();
  });
  float last = 0;
  for (const int begin = updates; updates < begin + 20 || last < 10;) {
    int64_t count = 0;
    reader.Read([&](std::span<const float> piece) {
      count += static_cast<int64_t>(piece.size());
      EXPECT_EQ(std::count(piece.begin(), piece.end(), piece[0]),
                static_cast<int64_t>(piece.size()));
      EXPECT_GE(piece[0], last);
      last = piece[0];
    });
    ASSERT_EQ(count, kWeightReaderSize);
    if (HasFailure()) break;
  }
  reads = false;
  thread.Join();
  std::vector<float> copy(kWeightReaderSize);
  reader.Copy(copy.data());
  EXPECT_EQ(copy, std::vector<float>(kWeightReaderSize, static_cast<float>(updates)));
}

TEST_P(WeightReaders, GiveTheChecksumOfTheSameWeightsOnTheHost) {
  std::vector<float> values(kWeightReaderSize);
  for (int64_t i = 0; i < kWeightReaderSize; ++i) values[i] = static_cast<float>(i % 1000) - 500;
  DeviceWeights weights(&first(), kWeightReaderSize);
  weights.CopyFromHost(values.data());
  const WeightReader reader(&weights);
  const auto host = std::span<const float>(values);
  EXPECT_EQ(TerminationDetector::Checksum(reader), TerminationDetector::Checksum(host));
  values[kWeightReaderSize - 1] = -0.0f;
  weights.CopyFromHost(values.data());
  const uint32_t negative = TerminationDetector::Checksum(reader);
  values[kWeightReaderSize - 1] = 0.0f;
  EXPECT_EQ(TerminationDetector::Checksum(host), negative);
  values[kWeightReaderSize - 1] = 1.0f;
  EXPECT_NE(TerminationDetector::Checksum(host), negative);
}

}  // namespace
}  // namespace millrace::test
