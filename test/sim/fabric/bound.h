// Closed-form cost of a sweep at a port, without heartbeats and retransmissions. Tests compare
// it with simulation results.
#ifndef MILLRACE_TEST_SIM_FABRIC_BOUND_H_
#define MILLRACE_TEST_SIM_FABRIC_BOUND_H_

#include <cstdint>

#include "exchange/kernels/chunk_op.h"
#include "test/sim/fabric/port.h"
#include "test/sim/fabric/wire.h"
#include "test/sim/shape.h"

namespace millrace::sim {

// The weights and their encoding on the wire.
struct Partition {
  Wire wire;
  int64_t chunks = 0, chunk_floats = 0;  // of all weights; of one chunk on the wire
  Codec codec = Codec::kFloat32;         // not sparse
  bool multicast = false;
};

struct SweepCost {
  double sent = 0, received = 0;  // bytes of positions and diffs
  // Upper bound: one credit per frame, and a separate acknowledgement frame for each position
  // without a diff in reply. Windows and batched acknowledgements need fewer.
  double max_sent = 0, max_received = 0;
};

// Cost at one end of a segment of `members` nodes (at least 2) with ids below `max_nodes`. Each
// node masters an equal share of the chunks and takes one position of every other chunk. It
// answers the share `answered` (0 to 1) of these positions with a diff.
SweepCost CostOfSweep(const Partition& cut, size_t members, uint16_t max_nodes, double answered);

// Maximum over all ports of the cost of all their segments; each field is a separate maximum.
SweepCost CostOfBusiest(const Partition& cut, const Shape& shape, double answered);

// Upper bound on the sweeps per second of the slowest segment. The busiest port sets it, if all
// segments make equally many sweeps.
double MaxSweeps(const Partition& cut, const Shape& shape, double answered, const PortRates& rates);

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_FABRIC_BOUND_H_
