#include "train/snapshot_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "test/support/fake_clock.h"
#include "test/support/log_watch.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

constexpr int64_t kS = 1'000'000'000;

class SnapshotWriters : public testing::Test {
 protected:
  static Snapshot Of(int64_t iteration, bool with_model = true) {
    Snapshot snapshot;
    snapshot.iteration = iteration;
    if (with_model) snapshot.model.add_layer()->set_name("ip");
    return snapshot;
  }
  std::string Path(int64_t iteration, const std::string& ending = ".caffemodel") const {
    return folder_ / StrCat("run_iter_", iteration, ending);
  }
  bool Exists(int64_t iteration, const std::string& ending = ".caffemodel") const {
    return FileExists(Path(iteration, ending));
  }
  // A directory occupies the path of the file.
  void Block(const std::string& path) { MakeDirectories(path + "/in the way"); }
  static void Unblock(const std::string& path) { std::filesystem::remove_all(path); }
  // Polls `seconds` later.
  void Poll(int64_t seconds) {
    clock_.AdvanceNs(seconds * kS);
    writer_.Poll();
  }
  // Records the pauses.
  auto Pause(int most) {
    return [this, most](int ms) {
      pauses_.push_back(ms);
      return static_cast<int>(pauses_.size()) <= most;
    };
  }

  TempDir folder_;
  FakeClock clock_;
  std::vector<int64_t> wrote_;  // iterations of the models written
  std::vector<int> pauses_;
  SnapshotWriter writer_{
      folder_ / "run", "b", &clock_, [this](int64_t iteration, const std::string& state) {
        EXPECT_TRUE(state.ends_with(StrCat("_iter_", iteration, ".solverstate")));
        wrote_.push_back(iteration);
      }};
};

TEST_F(SnapshotWriters, WriteAllPartsOrOnlyTheNodesOwn) {
  writer_.Write(Of(5));
  writer_.Write(Of(6, false));
  for (const char* ending : {".caffemodel", ".solverstate", ".b.solverstate"}) {
    EXPECT_TRUE(Exists(5, ending));
  }
  EXPECT_TRUE(Exists(6, ".b.solverstate"));
  EXPECT_FALSE(Exists(6) || Exists(6, ".solverstate"));
  EXPECT_EQ(wrote_, std::vector<int64_t>{5});
  EXPECT_EQ(writer_.failures(), 0u);
}

TEST_F(SnapshotWriters, NameTheFilesThatTheyCannotWrite) {
  for (const char* ending : {".caffemodel", ".solverstate", ".b.solverstate"}) {
    Block(Path(5, ending));
    LogWatch log;
    writer_.Write(Of(5));
    std::string last;
    int failures = 0;
    for (const std::string& line : log.lines()) {
      if (line.starts_with("Snapshotting")) last = line;
      failures += line.starts_with("The snapshot of iteration 5 was not written");
    }
    EXPECT_TRUE(last.ends_with(" " + Path(5, ending))) << last;
    EXPECT_EQ(failures, 1);
    Unblock(Path(5, ending));
  }
}

TEST_F(SnapshotWriters, TryAgainLaterAndLater) {
  Block(Path(5));
  writer_.Write(Of(5));
  EXPECT_EQ(writer_.failures(), 1u);
  int64_t pause_s = SnapshotWriter::kRetryNs / kS;
  for (uint64_t failures = 2; failures < 12; ++failures) {
    Poll(pause_s - 1);
    EXPECT_EQ(writer_.failures(), failures - 1) << pause_s;
    Poll(1);
    EXPECT_EQ(writer_.failures(), failures) << pause_s;
    pause_s = std::min(2 * pause_s, SnapshotWriter::kMaxRetryNs / kS);
  }
  Unblock(Path(5));
  Poll(pause_s);
  EXPECT_TRUE(Exists(5) && Exists(5, ".solverstate") && Exists(5, ".b.solverstate"));
  EXPECT_EQ(wrote_, std::vector<int64_t>{5});
  // From here on, the state is as at the start.
  Block(Path(7));
  writer_.Write(Of(7));
  Unblock(Path(7));
  Poll(SnapshotWriter::kRetryNs / kS);
  EXPECT_TRUE(Exists(7));
}

TEST_F(SnapshotWriters, DoNotWriteAgainWhatIsThere) {
  Block(Path(5, ".solverstate"));
  writer_.Write(Of(5));
  EXPECT_TRUE(Exists(5));
  EXPECT_TRUE(wrote_.empty());
  std::filesystem::remove(Path(5));
  Unblock(Path(5, ".solverstate"));
  Poll(5);
  EXPECT_TRUE(Exists(5, ".solverstate"));
  EXPECT_FALSE(Exists(5));
  EXPECT_EQ(wrote_, std::vector<int64_t>{5});
}

TEST_F(SnapshotWriters, TryTheNextOneAtOnceAndKeepTheNewestOfThoseThatFail) {
  for (int64_t iteration : {5, 6, 7}) Block(Path(iteration));
  for (int64_t iteration : {5, 7, 6}) writer_.Write(Of(iteration));
  EXPECT_EQ(writer_.failures(), 3u);
  writer_.Write(Of(8));
  EXPECT_TRUE(Exists(8));
  for (int64_t iteration : {5, 6, 7}) Unblock(Path(iteration));
  Poll(1000);
  Poll(1000);
  EXPECT_TRUE(Exists(7));
  EXPECT_FALSE(Exists(5) || Exists(6));
}

TEST_F(SnapshotWriters, TryTheLastOneSeveralTimesAndThenSayWhy) {
  Block(Path(9));
  const std::string error = ErrorOf([&] { writer_.Finish(9, Of(9), Pause(100)); });
  EXPECT_CONTAINS(error, Path(9) + ": cannot be written: ");
  EXPECT_EQ(pauses_, (std::vector<int>{1000, 2000, 4000}));
  EXPECT_EQ(writer_.failures(), 4u);
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().string(), Path(9));  // only the blocking directory
  }
  pauses_.clear();
  EXPECT_CONTAINS(ErrorOf([&] { writer_.Finish(9, Of(9), Pause(1)); }), Path(9));
  EXPECT_EQ(pauses_, (std::vector<int>{1000, 2000}));  // stopped during the second pause
}

TEST_F(SnapshotWriters, FinishWithALastOneThatIsWrittenInTheEnd) {
  Block(Path(9));
  writer_.Finish(9, Of(9), [&](int) {
    Unblock(Path(9));
    return true;
  });
  EXPECT_TRUE(Exists(9) && Exists(9, ".solverstate") && Exists(9, ".b.solverstate"));
}

// The schedule may end with a periodic snapshot, which a solver writes.
TEST_F(SnapshotWriters, TakeOneThatIsKeptForTheLastIfItIs) {
  Block(Path(9));
  writer_.Write(Of(9));
  EXPECT_CONTAINS(ErrorOf([&] { writer_.Finish(9, std::nullopt, Pause(0)); }), Path(9));
  writer_.Finish(9, std::nullopt, Pause(0));  // no snapshot is kept any more
}

TEST_F(SnapshotWriters, DoNotFailForOneThatIsOlderThanTheLast) {
  Block(Path(8));
  writer_.Write(Of(8));
  writer_.Finish(9, std::nullopt, Pause(0));
  writer_.Write(Of(8));
  Unblock(Path(8));
  writer_.Finish(9, Of(9), Pause(0));
  EXPECT_TRUE(Exists(8) && Exists(9));
  EXPECT_TRUE(pauses_.empty());
}

}  // namespace
}  // namespace millrace::test
