// Determines which node of a topology this process is.
#ifndef MILLRACE_TOPOLOGY_CHOOSE_NODE_H_
#define MILLRACE_TOPOLOGY_CHOOSE_NODE_H_

#include <functional>
#include <optional>
#include <string>

#include "topology/topology.h"

namespace millrace::inline topology {

// Returns the value of an environment variable, or null if it is not set: std::getenv, or a test's
// replacement.
using GetEnvironment = std::function<const char*(const char* name)>;

// The node named `name`. Throws Error with the file name and the existing nodes if there is none.
NodeId FindNode(const Topology& topology, const std::string& name);

// The node whose index in the file is the rank that a launcher gave this process: the first of
// OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK (mpirun) and SLURM_PROCID (srun) that is set. None if
// none is set. Throws Error if the value is not a number or not below the number of nodes.
std::optional<NodeId> NodeByRank(const Topology& topology, const GetEnvironment& environment);

// The node by `name` if it is not empty, else by rank, else the only node of the file. Throws Error
// if none of these applies.
NodeId ChooseNode(const Topology& topology, const std::string& name,
                  const GetEnvironment& environment);

}  // namespace millrace::inline topology

#endif  // MILLRACE_TOPOLOGY_CHOOSE_NODE_H_
