// What a sweep costs at a port, by arithmetic: nothing of heartbeats, credits, or frames
// that are sent again. To be compared with what a simulation finds.
#ifndef MILLRACE_TEST_FABRIC_BOUND_H_
#define MILLRACE_TEST_FABRIC_BOUND_H_

#include <cstdint>

#include "exchange/kernels/chunk_op.h"
#include "test/fabric/shape.h"
#include "test/fabric/sim_port.h"
#include "test/fabric/wire.h"

namespace millrace::fabric {

// What travels.
struct Partition {
  Wire wire;
  int64_t chunks = 0, chunk_floats = 0;  // of the weights; of a chunk on the wire
  Codec codec = Codec::kFloat32;         // not sparse
  bool multicast = false;
};

struct SweepCost {
  double sent = 0, received = 0;  // bytes
  // With a credit for each frame, and a frame of its own that tells of each position which no
  // diff answers. Fewer are needed, by the windows and by what comes together.
  double most_sent = 0, most_received = 0;
};

// Of one end of a segment of `members` nodes (2 at least) whose ids are below `max_nodes`, each
// of which masters its share of the chunks: it takes a position of every chunk that others
// master, and `answered` (0 to 1) of these positions are answered with a diff.
SweepCost CostOfSweep(const Partition& cut, size_t members, uint16_t max_nodes, double answered);

// What all segments together cost the port that sends most, and the one that receives most.
SweepCost CostOfBusiest(const Partition& cut, const Shape& shape, double answered);

// The most sweeps per second that the slowest segment of a shape can make: that of the port
// that has the most to do, if all segments make as many.
double MostSweeps(const Partition& cut, const Shape& shape, double answered,
                  const PortRates& rates);

}  // namespace millrace::fabric

#endif  // MILLRACE_TEST_FABRIC_BOUND_H_
