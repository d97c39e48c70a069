#include "collective/processes.h"

#include <map>
#include <string>

#include "base/error.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

std::optional<Launch> LaunchIn(const std::map<std::string, std::string>& variables) {
  return FindLaunch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(FindLaunch, ReadsRankAndSizeOfMpirunAndOfSrun) {
  const auto mpirun = LaunchIn({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}});
  ASSERT_TRUE(mpirun);
  EXPECT_EQ(mpirun->launcher, "mpirun");
  EXPECT_EQ(mpirun->rank, 3);
  EXPECT_EQ(mpirun->size, 4);
  const auto srun = LaunchIn({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}});
  ASSERT_TRUE(srun);
  EXPECT_EQ(srun->launcher, "srun");
  EXPECT_EQ(srun->size, 2);
}

TEST(FindLaunch, PrefersMpirunWithinABatchOfSlurm) {
  const auto launch = LaunchIn({{"OMPI_COMM_WORLD_SIZE", "2"},
                                {"OMPI_COMM_WORLD_RANK", "1"},
                                {"SLURM_STEP_NUM_TASKS", "9"},
                                {"SLURM_PROCID", "0"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->launcher, "mpirun");
}

// A batch script of Slurm has a SLURM_PROCID too.
TEST(FindLaunch, FindsNoneForAProcessThatIsAlone) {
  EXPECT_FALSE(LaunchIn({}));
  EXPECT_FALSE(LaunchIn({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
  EXPECT_FALSE(LaunchIn({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}));
}

TEST(FindLaunch, NamesAVariableThatIsNotANumber) {
  EXPECT_CONTAINS(ErrorOf([] {
                    LaunchIn({{"OMPI_COMM_WORLD_SIZE", "two"}, {"OMPI_COMM_WORLD_RANK", "0"}});
                  }),
                  "OMPI_COMM_WORLD_SIZE=two: expected a number");
}

}  // namespace
}  // namespace millrace::test
