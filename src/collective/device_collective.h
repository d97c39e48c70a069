// Sums of arrays in the memories of devices, between the solvers of a run that compute on devices:
// one member for each device of each process. A file for each type of device registers how groups
// are made (nccl/).
#ifndef MILLRACE_COLLECTIVE_DEVICE_COLLECTIVE_H_
#define MILLRACE_COLLECTIVE_DEVICE_COLLECTIVE_H_

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collective/collective.h"
#include "millrace/device.h"

namespace millrace::inline collective {

// One member's view of its group. Every member enqueues the same operations, with the same sizes,
// in the same order. Not thread-safe: one thread of the member calls it at a time, and the members
// of a process have threads of their own.
class DeviceCollective {
 public:
  // Waits for no other member. The queues of Sum have ended before.
  virtual ~DeviceCollective() = default;

  // The number of this member, from 0 to size() - 1: its index in its process + members of a
  // process * rank of the process.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Enqueues work on `queue`, of the member's device, that replaces `values`, in the memory of the
  // device, by their sums over all members; if `average`, by their means. The work waits for the
  // same work of all other members. The order of the additions depends on the group and the number
  // of values only. Throws Error if the group has failed.
  virtual void Sum(Queue* queue, std::span<float> values, bool average) = 0;
  // Throws Error if the group has failed. Call it repeatedly while waiting for sums. Cheap.
  virtual void Check() = 0;
  // Ends this member's sums, also those that wait for members which have failed; the values are
  // undefined. Afterwards, this object may only be destroyed. Does not wait for other members.
  virtual void Abort() = 0;
};

using DeviceGroup = std::vector<std::unique_ptr<DeviceCollective>>;

// Makes the members of a new group, one for each of `devices`. `devices`: of this process, of one
// type, each once. `between`: the processes, each of which calls this with as many devices; null:
// this process is alone. Waits for all processes. Throws Error.
using MakeDeviceGroupFunction = DeviceGroup (*)(std::span<Device* const> devices,
                                                Collective* between);

// Registers how groups of devices of a type are made. Define one at namespace scope.
struct RegisterDeviceGroup {
  RegisterDeviceGroup(DeviceType type, MakeDeviceGroupFunction make);
};

// Calls the function that is registered for the devices' type. Throws Error also if there is none.
DeviceGroup MakeDeviceGroup(std::span<Device* const> devices, Collective* between);

}  // namespace millrace::inline collective

#endif  // MILLRACE_COLLECTIVE_DEVICE_COLLECTIVE_H_
