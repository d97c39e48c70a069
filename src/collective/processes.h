// The processes that a launcher (mpirun, srun) has started to train together. A library of
// collective operations connects them; without it this process says so.
#ifndef MILLRACE_COLLECTIVE_PROCESSES_H_
#define MILLRACE_COLLECTIVE_PROCESSES_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "collective/collective.h"

namespace millrace::inline collective {

// Connected processes. Each of them sends heartbeats to all others. A wait for a process that has
// been silent for the peer timeout, or that has failed, throws Error with a line that names it;
// work of any length between the waits does not matter. The thread that connects them also destroys
// the object.
class Processes {
 public:
  virtual ~Processes() = default;

  // The number of this process, from 0 to size() - 1.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // A new group of all processes, whose operations do not interfere with those of other groups. All
  // processes create their groups in the same order. Ends before this object.
  virtual std::unique_ptr<Collective> NewGroup() = 0;
  // This process no longer needs the others. Returns when all of them have called it. Called after
  // the groups have ended. The destructor calls it for an object that has not failed, and then logs
  // its error.
  virtual void Finish() = 0;
  // This process cannot go on: waits of the others throw Error with `reason`. Afterwards, this
  // object and its groups may only be destroyed; memory that was being summed has to live until
  // this call. Later calls have no effect.
  virtual void Fail(const std::string& reason) = 0;
  // Ends all processes with exit status 1. Does not return.
  [[noreturn]] virtual void Abort() = 0;
};

// Start of this process by a launcher, as the environment has it.
struct Launch {
  std::string launcher;  // "mpirun" or "srun"
  int rank = 0, size = 1;
};

// The value of a variable of the environment, or null.
using Environment = std::function<const char*(const char* variable)>;

// None if no launcher has started this process together with others. Reads OMPI_COMM_WORLD_SIZE and
// OMPI_COMM_WORLD_RANK (mpirun) first, then SLURM_STEP_NUM_TASKS and SLURM_PROCID (srun). Throws
// Error for what is not a number.
std::optional<Launch> FindLaunch(const Environment& environment);

// `peer_timeout`: in seconds.
using ConnectFunction = std::unique_ptr<Processes> (*)(double peer_timeout);

// Registers a function that connects processes. Define one at namespace scope, in module mpi.
struct RegisterConnect {
  explicit RegisterConnect(ConnectFunction connect);
};

// Why no library connects processes: "module mpi, which is not installed (...)"; "" if one does.
std::string WhyNoProcesses();

// Connects the processes of `launch`, once in the life of this process. `peer_timeout`: seconds of
// silence after which a process counts as lost. Throws Error if there is no library for that, or if
// the library does not find all of them.
std::unique_ptr<Processes> ConnectProcesses(const Launch& launch, double peer_timeout);

}  // namespace millrace::inline collective

#endif  // MILLRACE_COLLECTIVE_PROCESSES_H_
