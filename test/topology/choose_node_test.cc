#include "topology/choose_node.h"

#include <gtest/gtest.h>

#include <map>

#include "test/topology/topology_support.h"

namespace millrace::test {
namespace {

GetEnvironment Environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

const Topology& Three() {
  static const Topology topology = Parse(WithUdp(""));
  return topology;
}

TEST(FindNode, GoesByName) {
  EXPECT_EQ(FindNode(Three(), "c"), 2);
  EXPECT_EQ(ErrorOf([] { FindNode(Three(), "d"); }),
            "f: there is no node \"d\", expected one of a, b, c");
}

TEST(NodeByRank, KnowsMpirunAndSrun) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    EXPECT_EQ(NodeByRank(Three(), Environment({{name, "1"}})), NodeId{1}) << name;
  }
  EXPECT_EQ(NodeByRank(Three(), Environment({{"RANK", "1"}})), std::nullopt);
}

// When mpirun runs in a Slurm batch script, every process inherits the script's SLURM_PROCID 0.
TEST(NodeByRank, BelievesMpirunRatherThanSlurm) {
  const auto both = Environment({{"SLURM_PROCID", "0"}, {"OMPI_COMM_WORLD_RANK", "2"}});
  EXPECT_EQ(NodeByRank(Three(), both), NodeId{2});
}

TEST(NodeByRank, RefusesRanksWithoutANode) {
  const auto error = [](const std::string& rank) {
    return ErrorOf([&] { NodeByRank(Three(), Environment({{"PMI_RANK", rank}})); });
  };
  EXPECT_EQ(error("3"), "PMI_RANK=3: f has 3 nodes, expected a rank from 0 to 2");
  EXPECT_EQ(error("65536"), "PMI_RANK=65536: f has 3 nodes, expected a rank from 0 to 2");
  for (const char* bad : {"", "-1", "x", "1 ", "99999999999"}) {
    EXPECT_EQ(error(bad), StrCat("PMI_RANK=", bad, ": expected a rank, 0 or more"));
  }
}

TEST(ChooseNode, PrefersTheNameThenTheRank) {
  const auto ranked = Environment({{"PMIX_RANK", "1"}});
  EXPECT_EQ(ChooseNode(Three(), "c", ranked), 2);
  EXPECT_EQ(ChooseNode(Three(), "", ranked), 1);
  EXPECT_EQ(ErrorOf([] { ChooseNode(Three(), "", Environment({})); }),
            "f: which node is this? expected --node=NAME (one of a, b, c), or a start by mpirun or "
            "srun");
}

TEST(ChooseNode, TakesTheOnlyNode) {
  EXPECT_EQ(ChooseNode(Parse("name: 'n' node { name: 'a' }"), "", Environment({})), 0);
}

}  // namespace
}  // namespace millrace::test
