// strategy { type: "allreduce" }: synchronous training (docs/learning.md).
#include <cstdint>
#include <memory>

#include "solver/strategy_registry.h"
#include "strategy/allreduce.h"

namespace millrace::inline strategy {
namespace {

void CheckRun(const StrategyContext& context) {
  const auto refuse = [](const char* what) {
    throw FieldError("strategy.type", "is allreduce, which trains on processors of this process, ",
                     "and of others that mpirun or srun starts, expected no ", what);
  };
  if (context.in_cluster) refuse("topology");
  for (int i = 0; i < context.solvers; ++i) {
    if (context.ReplicaOf(i) != nullptr) refuse("GPU");
  }
  if (context.weights_are_shared) refuse("weights that processes share (--shm)");
}

StrategyMaker MakeAllreduce(const StrategyContext& context) {
  CheckRun(context);
  AllreduceSettings settings;
  settings.average = context.parameters.at("average") != 0;
  settings.bucket = static_cast<int64_t>(context.parameters.at("bucket_kib")) * 1024 /
                    static_cast<int64_t>(sizeof(float));
  settings.stopped = context.stopped;
  const auto team = std::make_shared<AllreduceTeam>(context.weights, context.solvers,
                                                    context.processes, std::move(settings));
  return [team](int index) -> std::unique_ptr<Strategy> {
    try {
      return std::make_unique<AllreduceStrategy>(team.get(), index);
    } catch (const std::exception&) {
      team->Fail(std::current_exception());
      throw;
    }
  };
}

const RegisterStrategy allreduce(
    {.part =
         {.name = "allreduce",
          .parameters =
              {{.name = "average", .fallback = 1, .least = 0, .most = 1, .whole = true},
               {.name = "bucket_kib", .fallback = 4096, .least = 1, .most = 1 << 20, .whole = true},
               {.name = "divide_batch", .fallback = 0, .least = 0, .most = 1, .whole = true}}},
     .make = MakeAllreduce,
     .synchronous = true});

}  // namespace
}  // namespace millrace::inline strategy
