#include "collective/processes.h"

#include "base/error.h"
#include "base/module.h"
#include "base/registration.h"
#include "base/text/parse.h"

namespace millrace::inline collective {
namespace {

ConnectFunction& Connect() {
  static ConnectFunction connect = nullptr;
  return connect;
}

int NumberOf(const char* variable, const char* text) {
  const auto number = ParseNumber<int>(text);
  if (!number || *number < 0) throw Error(variable, "=", text, ": expected a number, 0 or more");
  return *number;
}

}  // namespace

std::optional<Launch> FindLaunch(const Environment& environment) {
  const struct {
    const char *launcher, *size, *rank;
  } launchers[] = {{"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                   {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
  for (const auto& each : launchers) {
    const char* const size = environment(each.size);
    const char* const rank = environment(each.rank);
    if (size == nullptr || rank == nullptr) continue;
    const Launch launch{each.launcher, NumberOf(each.rank, rank), NumberOf(each.size, size)};
    if (launch.size <= 1) return std::nullopt;
    return launch;
  }
  return std::nullopt;
}

RegisterConnect::RegisterConnect(ConnectFunction connect) {
  if (Connect() != nullptr) ReportBadRegistration("two libraries connect processes, expected one");
  Connect() = connect;
}

std::string WhyNoProcesses() {
  const std::string reason = LoadModule("mpi");
  return Connect() != nullptr ? "" : reason;
}

std::unique_ptr<Processes> ConnectProcesses(const Launch& launch, double peer_timeout) {
  if (const std::string reason = WhyNoProcesses(); !reason.empty()) {
    throw Error(launch.launcher, " has started ", launch.size,
                " processes, but what connects them is in ", reason);
  }
  std::unique_ptr<Processes> processes = Connect()(peer_timeout);
  if (processes->size() != launch.size) {
    throw Error(launch.launcher, " has started ", launch.size, " processes, but MPI connects ",
                processes->size(), " of them",
                launch.launcher == "srun" ? ": start them by srun --mpi=pmix, or by mpirun" : "");
  }
  return processes;
}

}  // namespace millrace::inline collective
