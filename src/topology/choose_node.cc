#include "topology/choose_node.h"

#include "base/text/parse.h"
#include "topology/read_fields.h"

namespace millrace::inline topology {
namespace {

std::string NodeNames(const Topology& topology) {
  std::vector<std::string> names;
  for (const TopologyNode& node : topology.nodes) names.push_back(node.name);
  return NameList(names);
}

}  // namespace

NodeId FindNode(const Topology& topology, const std::string& name) {
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    if (topology.nodes[i].name == name) return static_cast<NodeId>(i);
  }
  throw Error(topology.source.file(), ": there is no node \"", name, "\", expected one of ",
              NodeNames(topology));
}

std::optional<NodeId> NodeByRank(const Topology& topology, const GetEnvironment& environment) {
  // SLURM_PROCID comes last: a batch script sets it for all of its processes, including those that
  // mpirun starts.
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* text = environment(variable);
    if (!text) continue;
    const auto rank = ParseNumber<uint32_t>(text);
    if (!rank) throw Error(variable, "=", text, ": expected a rank, 0 or more");
    const size_t nodes = topology.nodes.size();
    if (*rank >= nodes) {
      throw Error(variable, "=", text, ": ", topology.source.file(), " has ", nodes,
                  nodes == 1 ? " node" : " nodes", ", expected a rank from 0 to ", nodes - 1);
    }
    return static_cast<NodeId>(*rank);
  }
  return std::nullopt;
}

NodeId ChooseNode(const Topology& topology, const std::string& name,
                  const GetEnvironment& environment) {
  if (!name.empty()) return FindNode(topology, name);
  if (const std::optional<NodeId> node = NodeByRank(topology, environment)) return *node;
  if (topology.nodes.size() == 1) return 0;
  throw Error(topology.source.file(), ": which node is this? expected --node=NAME (one of ",
              NodeNames(topology), "), or a start by mpirun or srun");
}

}  // namespace millrace::inline topology
