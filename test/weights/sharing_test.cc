// Several real processes share one weight buffer.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "test/weights/shm_support.h"

namespace millrace {
namespace {

using test::Child;
using test::CreateFilled;
using test::ShmName;
using test::SmallLayout;

TEST(SharedWeights, ReachAnotherProcessInBothDirections) {
  ShmName name;
  auto buffer = CreateFilled(name, 1);
  Child child([&](Child&) {
    auto joined = WeightBuffer::JoinTraining(name, SmallLayout());
    if (joined->created() || joined->data()[100] != 1) return 1;
    joined->data()[100] = 5;
    return joined->StopTraining() ? 2 : 0;
  });
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(buffer->data()[100], 5);
}

TEST(SharedWeights, GiveEachIterationToOneProcessOnly) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  constexpr int64_t kLimit = 500;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 2; ++i) {
    children.push_back(std::make_unique<Child>([&](Child& self) {
      auto joined = WeightBuffer::JoinTraining(name, SmallLayout());
      const int slot = joined->clock().RegisterSolver();
      self.Report();
      self.AwaitParent();
      while (auto iteration = joined->clock().Claim(kLimit)) {
        joined->data()[*iteration] += 1;
        joined->clock().Done(slot);
      }
      return 0;
    }));
  }
  for (auto& child : children) child->AwaitReport();
  for (auto& child : children) child->Continue();
  for (auto& child : children) EXPECT_EQ(child->Wait(), 0);
  for (int64_t i = 0; i < kLimit; ++i) ASSERT_EQ(buffer->data()[i], 1) << i;
  EXPECT_EQ(buffer->clock().global(), kLimit);
}

TEST(SharedWeights, AreExchangedWhileNoOtherProcessUpdatesThem) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  RangeLock::Exclusive exchange(&buffer->locks());
  Child child([&](Child& self) {
    auto joined = WeightBuffer::JoinTraining(name, SmallLayout());
    RangeLock::Shared solver(&joined->locks());
    solver.Lock(joined->data() + 100, 100);
    self.Report();
    self.AwaitParent();
    solver.Unlock();
    self.Report();
    self.AwaitParent();
    solver.Lock(joined->data() + 100, 100);
    self.Report();
    self.AwaitParent();
    return 0;
  });
  child.AwaitReport();
  EXPECT_FALSE(exchange.TryLock(buffer->data() + 150, 16));
  EXPECT_TRUE(exchange.TryLock(buffer->data() + 256, 16));
  exchange.Unlock();
  child.Continue();
  child.AwaitReport();
  EXPECT_TRUE(exchange.TryLock(buffer->data() + 150, 16));
  exchange.Unlock();
  child.Continue();
  child.AwaitReport();
  EXPECT_FALSE(exchange.TryLock(buffer->data() + 150, 16));
  child.Kill();  // during an update
  EXPECT_TRUE(exchange.TryLock(buffer->data() + 150, 16));
}

TEST(SharedWeights, AreTrainedOnWhenAnExchangeDiesWithItsRange) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  RangeLock::Shared solver(&buffer->locks());
  Child child([&](Child& self) {
    auto joined = WeightBuffer::JoinTraining(name, SmallLayout());
    RangeLock::Exclusive exchange(&joined->locks());
    if (!exchange.TryLock(joined->data(), 500)) return 1;
    self.Report();
    self.AwaitParent();
    return 0;
  });
  child.AwaitReport();
  EXPECT_FALSE(solver.TryLock(buffer->data() + 100, 100));
  child.Kill();
  solver.Lock(buffer->data() + 100, 100);  // would otherwise block forever
  solver.Unlock();
}

TEST(SharedWeights, SurviveTheDeathOfATrainerAndReuseItsPlaces) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  int solver_slot = 0;
  {
    Child child([&](Child& self) {
      auto joined = WeightBuffer::JoinTraining(name, SmallLayout());
      const int slot = joined->clock().RegisterSolver();
      joined->clock().Claim(100);
      joined->clock().Done(slot);
      joined->clock().Claim(100);  // this iteration is never completed
      self.Report(static_cast<char>(slot));
      self.AwaitParent();
      return 0;
    });
    solver_slot = child.AwaitReport();
    EXPECT_EQ(name.processes(), 2);
    child.Kill();
  }
  EXPECT_EQ(name.processes(), 1);
  EXPECT_EQ(buffer->clock().global(), 1);
  EXPECT_EQ(buffer->clock().Claim(100), 2);
  EXPECT_EQ(buffer->clock().global(), 1);  // the lost iteration is not repeated

  // Newcomers fill all remaining process slots, including that of the dead process.
  std::vector<std::unique_ptr<WeightBuffer>> newcomers;
  for (int i = 1; i < kMaxProcesses; ++i) {
    newcomers.push_back(WeightBuffer::JoinTraining(name, SmallLayout()));
  }
  EXPECT_EQ(name.processes(), kMaxProcesses);
  EXPECT_EQ(newcomers[0]->clock().RegisterSolver(), solver_slot);
  newcomers.clear();
  EXPECT_TRUE(buffer->StopTraining());
  buffer.reset();
  EXPECT_FALSE(name.exists());
}

TEST(SharedWeights, SeeAKilledProcessAsDeadWhileItIsStillAZombie) {
  ShmName name;
  auto buffer = CreateFilled(name, 0);
  Child child([&](Child& self) {
    auto joined = WeightBuffer::JoinTraining(name, SmallLayout());
    self.Report();
    self.AwaitParent();
    return 0;
  });
  child.AwaitReport();
  kill(child.pid(), SIGKILL);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(buffer->StopTraining());
  child.Wait();
}

TEST(SharedWeights, AreRemovedByTheSurvivorOfAKilledCreator) {
  ShmName name;
  Child creator([&](Child& self) {
    auto buffer = CreateFilled(name, 9);
    self.Report();
    self.AwaitParent();
    return 0;
  });
  creator.AwaitReport();
  auto survivor = WeightBuffer::JoinTraining(name, SmallLayout());
  creator.Kill();
  EXPECT_EQ(survivor->data()[0], 9);
  auto newcomer = WeightBuffer::JoinTraining(name, SmallLayout());
  EXPECT_FALSE(newcomer->StopTraining());
  newcomer.reset();
  EXPECT_TRUE(survivor->StopTraining());
  survivor.reset();
  EXPECT_FALSE(name.exists());
}

TEST(SharedWeights, ShowAReaderProcessWhatIsTrained) {
  ShmName name;
  auto buffer = CreateFilled(name, 1);
  Child reader([&](Child& self) {
    auto attached = WeightBuffer::AttachReader(name, nullptr);
    self.Report();
    self.AwaitParent();  // the trainer writes weights
    if (attached->data()[0] != 2) return 1;
    self.Report();
    self.AwaitParent();  // the trainer detaches
    return attached->data()[0] == 2 ? 0 : 2;
  });
  reader.AwaitReport();
  buffer->data()[0] = 2;
  EXPECT_EQ(name.processes(), 2);
  reader.Continue();
  reader.AwaitReport();
  EXPECT_TRUE(buffer->StopTraining());
  buffer.reset();
  EXPECT_FALSE(name.exists());
  reader.Continue();
  EXPECT_EQ(reader.Wait(), 0);
}

TEST(SharedWeights, StayInPlaceWhenAForkedChildEnds) {
  ShmName name;
  auto buffer = CreateFilled(name, 1);
  Child child([&](Child&) {
    buffer.reset();  // the parent's attachment, inherited by the fork
    return 0;
  });
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_TRUE(name.exists());
  EXPECT_EQ(name.processes(), 1);
}

// Releases `count` processes from a common start and returns their reports. All of them end
// together.
std::multiset<char> ReportsOf(int count, const std::function<void(Child&)>& prepare,
                              const std::function<char(Child&)>& race) {
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < count; ++i) {
    children.push_back(std::make_unique<Child>([&](Child& self) {
      prepare(self);
      self.Report();
      self.AwaitParent();
      self.Report(race(self));
      self.AwaitParent();
      return 0;
    }));
  }
  for (auto& child : children) child->AwaitReport();
  for (auto& child : children) child->Continue();
  std::multiset<char> reports;
  for (auto& child : children) reports.insert(child->AwaitReport());
  for (auto& child : children) child->Continue();
  for (auto& child : children) EXPECT_EQ(child->Wait(), 0);
  return reports;
}

TEST(SharedWeights, AreCreatedByExactlyOneOfEightProcesses) {
  for (int round = 0; round < 10; ++round) {
    ShmName name;
    std::unique_ptr<WeightBuffer> buffer;  // each child has its own after the fork
    const auto reports = ReportsOf(
        8, [](Child&) {},
        [&](Child&) -> char {
          buffer = WeightBuffer::JoinTraining(name, SmallLayout());
          if (buffer->created()) {
            buffer->data()[0] = 42;
            buffer->Publish();
            return 'c';
          }
          return buffer->data()[0] == 42 ? 'j' : '?';
        });
    EXPECT_EQ(reports, (std::multiset<char>{'c', 'j', 'j', 'j', 'j', 'j', 'j', 'j'}));
    // The children call _exit without detaching, as if killed.
    EXPECT_CONTAINS(test::ErrorOf([&] { WeightBuffer::JoinTraining(name, SmallLayout()); }),
                    "was left by a run that ended");
  }
}

TEST(SharedWeights, HaveExactlyOneLastTrainerWhenEightStopAtOnce) {
  for (int round = 0; round < 10; ++round) {
    ShmName name;
    std::unique_ptr<WeightBuffer> buffer;
    const auto reports = ReportsOf(
        8,
        [&](Child&) {
          buffer = WeightBuffer::JoinTraining(name, SmallLayout());
          if (buffer->created()) buffer->Publish();
        },
        [&](Child&) -> char { return buffer->StopTraining() ? 'l' : '-'; });
    EXPECT_EQ(reports.count('l'), 1u);
  }
}

}  // namespace
}  // namespace millrace
