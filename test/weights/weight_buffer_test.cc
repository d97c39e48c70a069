#include "weights/weight_buffer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstddef>
#include <cstdint>

#include "test/support/fake_clock.h"
#include "test/weights/shm_support.h"

namespace millrace {
namespace {

using test::CreateFilled;
using test::ErrorOf;
using test::ShmName;
using test::SmallLayout;

std::string JoinError(const std::string& name, const JoinWait& wait = {}) {
  return ErrorOf([&] { WeightBuffer::JoinTraining(name, SmallLayout(), wait); });
}

std::string ReaderError(const std::string& name) {
  return ErrorOf([&] { WeightBuffer::AttachReader(name, nullptr); });
}

// ---- Layout ----

TEST(ParamLayout, PutsEveryArrayOnCacheLinesOfItsOwn) {
  const ParamLayout layout = SmallLayout();
  EXPECT_EQ(layout.entries()[0].offset, 0);
  EXPECT_EQ(layout.entries()[1].offset, 512);  // 500 floats, rounded up to 16
  EXPECT_EQ(layout.size(), 512 + 32);
}

TEST(ParamLayout, HasAnotherDigestWhenANameAShapeOrTheOrderDiffers) {
  const auto digest = [](const std::vector<std::pair<std::string, std::vector<int64_t>>>& list) {
    ParamLayout layout;
    for (const auto& [name, shape] : list) layout.Add(name, shape);
    return layout.Digest();
  };
  const uint64_t original = digest({{"a/0", {2, 3}}, {"b/0", {6}}});
  EXPECT_EQ(digest({{"a/0", {2, 3}}, {"b/0", {6}}}), original);
  EXPECT_NE(digest({{"a/1", {2, 3}}, {"b/0", {6}}}), original);
  EXPECT_NE(digest({{"a/0", {3, 2}}, {"b/0", {6}}}), original);
  EXPECT_NE(digest({{"a/0", {6}}, {"b/0", {6}}}), original);
  EXPECT_NE(digest({{"b/0", {6}}, {"a/0", {2, 3}}}), original);
  EXPECT_NE(digest({{"a/0", {2, 3}}}), original);
}

// ---- Private memory ----

TEST(WeightBuffer, InPrivateMemoryIsPageAlignedAndZero) {
  for (int64_t floats : {int64_t{1}, int64_t{544}, int64_t{3} << 20}) {
    ParamLayout layout;
    layout.Add("w/0", {floats});
    auto buffer = WeightBuffer::CreatePrivate(layout);
    EXPECT_EQ(buffer->size(), layout.size());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 4096, 0u);
    for (int64_t i = 0; i < buffer->size(); ++i) ASSERT_EQ(buffer->data()[i], 0);
    buffer->data()[buffer->size() - 1] = 1;
    EXPECT_TRUE(buffer->created());
    EXPECT_TRUE(buffer->StopTraining());
  }
}

TEST(WeightBuffer, OfANetWithoutWeightsHasAnAddress) {
  EXPECT_NE(WeightBuffer::CreatePrivate(ParamLayout())->data(), nullptr);
  ShmName name;
  auto buffer = WeightBuffer::JoinTraining(name, ParamLayout());
  buffer->Publish();
  EXPECT_EQ(buffer->size(), 0);
  EXPECT_NE(WeightBuffer::JoinTraining(name, ParamLayout())->data(), nullptr);
}

TEST(WeightBuffer, LargerThanTheAddressSpaceIsRefused) {
  ParamLayout layout;
  layout.Add("w/0", {INT64_MAX / 32});
  EXPECT_CONTAINS(ErrorOf([&] { WeightBuffer::CreatePrivate(layout); }), "out of memory");
}

// ---- Shared files ----

TEST(WeightBuffer, ShowsTheCreatorsWeightsAndClockToWhoeverJoins) {
  ShmName name;
  auto creator = WeightBuffer::JoinTraining(name, SmallLayout());
  ASSERT_TRUE(creator->created());
  creator->data()[543] = 2.5f;
  creator->clock().StartAt(40);
  creator->Publish();
  auto joined = WeightBuffer::JoinTraining(name, SmallLayout());
  EXPECT_FALSE(joined->created());
  EXPECT_EQ(joined->size(), 544);
  EXPECT_NE(joined->data(), creator->data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(joined->data()) % 4096, 0u);
  EXPECT_EQ(joined->data()[543], 2.5f);
  joined->data()[0] = -1;
  EXPECT_EQ(creator->data()[0], -1);
  EXPECT_EQ(joined->clock().Claim(100), 40);
  EXPECT_EQ(creator->clock().Claim(100), 41);
  EXPECT_EQ(name.processes(), 2);
}

TEST(WeightBuffer, IsAFileThatOnlyItsOwnerCanRead) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  struct stat status;
  ASSERT_EQ(stat(name.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(WeightBuffer, GivesSolversOfTwoAttachmentsDifferentCounters) {
  ShmName name;
  auto one = CreateFilled(name, 0);
  auto two = WeightBuffer::JoinTraining(name, SmallLayout());
  const int first = one->clock().RegisterSolver(), second = two->clock().RegisterSolver();
  EXPECT_NE(first, second);
  two->clock().Done(second);
  two.reset();  // releases its counter but keeps the count
  EXPECT_EQ(one->clock().RegisterSolver(), second);
  EXPECT_EQ(one->clock().global(), 1);
}

TEST(WeightBuffer, RemovesItsFileWhenTheLastTrainerLeaves) {
  ShmName name;
  auto one = CreateFilled(name, 0);
  auto two = WeightBuffer::JoinTraining(name, SmallLayout());
  EXPECT_FALSE(one->StopTraining());
  one.reset();
  EXPECT_TRUE(name.exists());
  EXPECT_TRUE(two->StopTraining());
  EXPECT_TRUE(two->StopTraining());  // a second call gives the same result
  EXPECT_TRUE(name.exists());
  two.reset();
  EXPECT_FALSE(name.exists());
}

TEST(WeightBuffer, StaysUntilTheLastFormerTrainerHasSaved) {
  ShmName name;
  auto one = CreateFilled(name, 0);
  auto two = WeightBuffer::JoinTraining(name, SmallLayout());
  EXPECT_FALSE(one->StopTraining());
  EXPECT_TRUE(two->StopTraining());
  EXPECT_CONTAINS(JoinError(name), "is ending");
  EXPECT_NO_THROW(WeightBuffer::AttachReader(name, nullptr));
  two.reset();
  EXPECT_TRUE(name.exists());
  one.reset();
  EXPECT_FALSE(name.exists());
}

TEST(WeightBuffer, DoesNotRemoveAFileThatTookItsName) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  ASSERT_EQ(unlink(name.path().c_str()), 0);
  test::WriteFile(name.path(), "another");
  buffer.reset();
  EXPECT_TRUE(name.exists());
}

TEST(WeightBuffer, LetsReadersInWithoutStayingForThem) {
  ShmName name;
  auto trainer = CreateFilled(name, 3);
  const ParamLayout layout = SmallLayout();
  auto reader = WeightBuffer::AttachReader(name, &layout);
  EXPECT_EQ(reader->data()[10], 3);
  trainer->data()[10] = 4;
  EXPECT_EQ(reader->data()[10], 4);
  EXPECT_FALSE(reader->StopTraining());
  EXPECT_TRUE(trainer->StopTraining());
  trainer.reset();
  EXPECT_FALSE(name.exists());
  EXPECT_EQ(reader->data()[10], 4);
}

TEST(WeightBuffer, IsReadOnlyForReaders) {
  ShmName name;
  auto trainer = CreateFilled(name, 3);
  test::Child child([&](test::Child&) {
    signal(SIGSEGV, SIG_DFL);
    auto reader = WeightBuffer::AttachReader(name, nullptr);
    *const_cast<volatile float*>(reader->data()) = 1;
    return 0;
  });
  EXPECT_EQ(child.Wait(), 128 + SIGSEGV);
  EXPECT_EQ(trainer->data()[0], 3);
}

// ---- Waiting for the creator ----

struct Waiting {
  std::shared_ptr<test::FakeClock> clock = std::make_shared<test::FakeClock>();
  JoinWait wait;
  int pauses = 0;
  explicit Waiting(std::function<void()> during = [] {}) {
    wait.clock = clock;
    wait.pause = [this, during] {
      ++pauses;
      clock->AdvanceSeconds(1);
      during();
    };
  }
};

TEST(WeightBuffer, WaitsUntilItsCreatorHasFilledIt) {
  ShmName name;
  auto creator = WeightBuffer::JoinTraining(name, SmallLayout());
  Waiting waiting([&] {
    creator->data()[0] = 7;
    creator->Publish();
  });
  auto joined = WeightBuffer::JoinTraining(name, SmallLayout(), waiting.wait);
  EXPECT_EQ(waiting.pauses, 1);
  EXPECT_EQ(joined->data()[0], 7);
}

TEST(WeightBuffer, DoesNotWaitForEver) {
  ShmName name;
  auto creator = WeightBuffer::JoinTraining(name, SmallLayout());
  Waiting waiting;
  EXPECT_CONTAINS(JoinError(name, waiting.wait),
                  StrCat("process ", getpid(),
                         ", which creates it, has not filled its weights within "
                         "60 s"));
  EXPECT_EQ(waiting.pauses, 60);
}

TEST(WeightBuffer, StopsWaitingWhenAsked) {
  ShmName name;
  auto creator = WeightBuffer::JoinTraining(name, SmallLayout());
  Waiting waiting;
  waiting.wait.should_stop = [&] { return waiting.pauses == 3; };
  EXPECT_CONTAINS(JoinError(name, waiting.wait), "stopped while waiting");
  EXPECT_EQ(waiting.pauses, 3);
}

TEST(WeightBuffer, IsCreatedAnewWhenItsCreatorGivesUp) {
  ShmName name;
  auto creator = WeightBuffer::JoinTraining(name, SmallLayout());
  Waiting waiting([&] { creator.reset(); });
  EXPECT_TRUE(WeightBuffer::JoinTraining(name, SmallLayout(), waiting.wait)->created());
}

TEST(WeightBuffer, OfACreatorThatDiedBeforeFillingItIsRefused) {
  ShmName name;
  const int pid = test::LeaveStale(name, false);
  EXPECT_EQ(JoinError(name), StrCat(name.path(),
                                    " was left by a run that ended before its weights were filled "
                                    "(last pid ",
                                    pid, "); remove it: rm ", name.path()));
}

// ---- Refusals ----

TEST(WeightBuffer, OfAnotherNetIsRefused) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  ParamLayout other;
  other.Add("conv1/0", {20, 1, 5, 5});
  const std::string error = ErrorOf([&] { WeightBuffer::JoinTraining(name, other); });
  EXPECT_CONTAINS(error, name.path() + " holds the weights of another net (digest ");
  EXPECT_EQ(ErrorOf([&] { WeightBuffer::AttachReader(name, &other); }), error);
  EXPECT_NO_THROW(WeightBuffer::AttachReader(name, nullptr));
}

// Readers take any.
TEST(WeightBuffer, OfAnotherStrategyIsRefusedToTrainers) {
  ShmName name;
  const std::string local = "local { sync_condition { type: \"steps\" } }";
  auto buffer = WeightBuffer::JoinTraining(name, SmallLayout(), {}, local);
  buffer->Publish();
  EXPECT_NO_THROW(WeightBuffer::JoinTraining(name, SmallLayout(), {}, local));
  EXPECT_NO_THROW(WeightBuffer::AttachReader(name, nullptr));
  EXPECT_EQ(ErrorOf([&] { WeightBuffer::JoinTraining(name, SmallLayout(), {}, "hogwild"); }),
            StrCat(name.path(), ": the solvers of that run have the strategy ", local,
                   ", those of this process hogwild, expected the same in all solver files"));
}

// Only the beginning is compared.
TEST(WeightBuffer, HoldsAsMuchOfALongStrategyAsFits) {
  ShmName name;
  const std::string text(sizeof(ShmHeader::strategy), 'x');
  auto buffer = WeightBuffer::JoinTraining(name, SmallLayout(), {}, text + "y");
  buffer->Publish();
  EXPECT_NO_THROW(WeightBuffer::JoinTraining(name, SmallLayout(), {}, text + "z"));
  EXPECT_THROW(WeightBuffer::JoinTraining(name, SmallLayout(), {}, text.substr(1)), Error);
}

TEST(WeightBuffer, ThatIsNoWeightBufferIsRefused) {
  ShmName name;
  test::WriteFile(name.path(), "");
  ASSERT_EQ(chmod(name.path().c_str(), 0600), 0);
  EXPECT_CONTAINS(JoinError(name), "is not a Millrace weight buffer");
  test::WriteFile(name.path(), std::string(100000, 'x'));
  EXPECT_CONTAINS(JoinError(name), "is not a Millrace weight buffer");
  ASSERT_EQ(unlink(name.path().c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", name.path().c_str()), 0);
  EXPECT_CONTAINS(JoinError(name), "is not a Millrace weight buffer");
  ASSERT_EQ(unlink(name.path().c_str()), 0);
  ASSERT_EQ(mkfifo(name.path().c_str(), 0600), 0);
  EXPECT_CONTAINS(JoinError(name), "is not a Millrace weight buffer");
  ASSERT_EQ(unlink(name.path().c_str()), 0);
  ASSERT_EQ(mkdir(name.path().c_str(), 0700), 0);
  EXPECT_CONTAINS(JoinError(name), "is not a Millrace weight buffer");
  ASSERT_EQ(rmdir(name.path().c_str()), 0);
}

TEST(WeightBuffer, OfAnotherVersionIsRefused) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  name.Poke(offsetof(ShmHeader, version), uint32_t{kShmVersion + 1});
  EXPECT_CONTAINS(JoinError(name), "of version 5, expected version 4");
}

TEST(WeightBuffer, OfAnotherTypeOrOtherTablesIsRefused) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  name.Poke(offsetof(ShmHeader, max_processes), uint32_t{65});
  EXPECT_CONTAINS(JoinError(name), "is damaged");
  name.Poke(offsetof(ShmHeader, dtype), uint32_t{9});
  EXPECT_CONTAINS(JoinError(name), "holds weights of type 9, expected 1 (float32)");
}

TEST(WeightBuffer, InAnUnknownStateIsRefused) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  name.Poke(offsetof(ShmHeader, state), uint32_t{5});
  EXPECT_CONTAINS(JoinError(name), "is damaged: state 5");
}

TEST(WeightBuffer, ThatIsTruncatedIsRefused) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  ASSERT_EQ(truncate(name.path().c_str(), 65536 + 4 * 543), 0);
  EXPECT_CONTAINS(JoinError(name), "truncated");
  EXPECT_CONTAINS(ReaderError(name), "truncated");
}

TEST(WeightBuffer, WhoseHeaderAnnouncesAnAbsurdSizeIsRefused) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  for (uint64_t floats : {UINT64_MAX, UINT64_MAX / 4, (UINT64_MAX - kShmArrayOffset) / 4 + 2,
                          uint64_t{1} << 61, uint64_t{545}}) {
    name.Poke(offsetof(ShmHeader, array_floats), floats);
    EXPECT_CONTAINS(ReaderError(name), "truncated");
  }
}

TEST(WeightBuffer, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  ASSERT_EQ(chown(name.path().c_str(), 12345, 12345), 0);
  EXPECT_CONTAINS(JoinError(name), "belongs to user 12345, and this process runs as user 0");
}

// Such a file does not necessarily belong to a run: another user may have hard-linked a
// world-writable file of this user to the name.
TEST(WeightBuffer, ThatOtherUsersMayWriteIsRefused) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  for (const mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(chmod(name.path().c_str(), mode), 0);
    const std::string expected = name.path() + " can be written by other users (mode 6";
    EXPECT_CONTAINS(JoinError(name), expected);
    EXPECT_CONTAINS(ReaderError(name), expected);
  }
  ASSERT_EQ(chmod(name.path().c_str(), 0644), 0);
  EXPECT_NO_THROW(WeightBuffer::AttachReader(name, nullptr));
}

TEST(WeightBuffer, LeftByARunThatEndedIsRefusedWithTheCommandThatRemovesIt) {
  ShmName name;
  const int pid = test::LeaveStale(name);
  const std::string expected = StrCat(name.path(), " was left by a run that ended (last pid ", pid,
                                      "); remove it: rm ", name.path());
  EXPECT_EQ(JoinError(name), expected);
  EXPECT_EQ(ReaderError(name), expected);
  EXPECT_TRUE(name.exists());
}

TEST(WeightBuffer, WhoseTrainersPidWasReusedIsRefused) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  EXPECT_NO_THROW(WeightBuffer::AttachReader(name, nullptr));
  name.Poke(offsetof(ShmHeader, processes), ThisProcess().start_time - 1);
  EXPECT_CONTAINS(JoinError(name), "was left by a run that ended");
}

TEST(WeightBuffer, WithABadNameIsRefused) {
  for (const std::string& name :
       {std::string(), std::string("a/b"), std::string("../x"), std::string("."), std::string(".."),
        std::string("a b"), std::string("a\0b", 3), std::string(201, 'a'), std::string("-\n")}) {
    EXPECT_CONTAINS(JoinError(name), "expected the name of a file in /dev/shm");
    EXPECT_CONTAINS(ReaderError(name), "expected the name of a file in /dev/shm");
  }
}

TEST(WeightBuffer, ThatDoesNotExistIsRefusedToReaders) {
  ShmName name;
  EXPECT_CONTAINS(ReaderError(name), name.path() + ": no such file");
}

TEST(WeightBuffer, WithoutRoomInShmIsRefusedAndLeavesNoFile) {
  struct statvfs space {};
  ASSERT_EQ(statvfs("/dev/shm", &space), 0);
  if (space.f_blocks == 0) GTEST_SKIP() << "/dev/shm has no size limit here";
  ParamLayout layout;
  layout.Add("w/0", {static_cast<int64_t>(space.f_blocks * space.f_frsize / 2)});
  ShmName name;
  const std::string error = ErrorOf([&] { WeightBuffer::JoinTraining(name, layout); });
  EXPECT_CONTAINS(error, name.path() + ": no room for ");
  EXPECT_CONTAINS(error, "No space left on device");
  EXPECT_FALSE(name.exists());
}

TEST(WeightBuffer, WithAFullTableOfProcessesIsRefused) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  const ProcessIdentity self = ThisProcess();
  for (int i = 0; i < kMaxProcesses; ++i) {
    name.Poke(offsetof(ShmHeader, processes) + sizeof(ShmProcess) * static_cast<size_t>(i),
              ShmProcess{self.start_time, self.pid, kShmTrainer, {}});
  }
  EXPECT_CONTAINS(JoinError(name), "all 64 places for processes are taken");
  EXPECT_CONTAINS(ReaderError(name), "all 64 places for processes are taken");
}

}  // namespace
}  // namespace millrace
