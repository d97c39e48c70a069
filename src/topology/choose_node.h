// Which node of a topology this process is.
#ifndef MILLRACE_TOPOLOGY_CHOOSE_NODE_H_
#define MILLRACE_TOPOLOGY_CHOOSE_NODE_H_

#include <functional>
#include <optional>
#include <string>

#include "topology/topology.h"

namespace millrace {

// The value of an environment variable, null if it is not set: std::getenv, or a test's.
using GetEnvironment = std::function<const char*(const char* name)>;

// Throws Error naming the file and the nodes that there are.
NodeId FindNode(const Topology& topology, const std::string& name);

// The node whose place in the file is the rank that a launcher gave this process: the
// first variable set of OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK (mpirun) and
// SLURM_PROCID (srun). None if no launcher did. Throws Error if the rank is no number or
// there are not so many nodes.
std::optional<NodeId> NodeByRank(const Topology& topology, const GetEnvironment& environment);

// By name if one is given (not empty), else by rank, else the only node of the file.
// Throws Error if all of that fails.
NodeId ChooseNode(const Topology& topology, const std::string& name,
                  const GetEnvironment& environment);

}  // namespace millrace

#endif  // MILLRACE_TOPOLOGY_CHOOSE_NODE_H_
