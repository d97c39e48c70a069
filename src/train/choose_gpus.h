// GPUs that the user asks for, by a flag or in the solver file.
#ifndef MILLRACE_TRAIN_CHOOSE_GPUS_H_
#define MILLRACE_TRAIN_CHOOSE_GPUS_H_

#include <optional>
#include <string>
#include <vector>

#include "millrace/device.h"
#include "solver/solver_config.h"

namespace millrace::inline train {

// The driver of GPUs; null: there is none. Without a value: that of this machine, whose module is
// loaded only where GPUs are asked for.
using ChosenDriver = std::optional<DeviceDriver*>;

// The GPUs of `driver` that `text` selects, the value of a flag --gpu: numbers such as "0,2", or
// "all". None for "". Without a usable GPU (WhyNoGpu) logs a warning with the reason and returns
// none: the caller uses the CPU, as for `solver_mode: GPU` in a solver file. Throws Error with one
// line if `text` has another form, or names a GPU twice or one that a machine with GPUs lacks.
std::vector<Device*> ChooseGpus(const std::string& text, ChosenDriver driver = {});

// The first GPU that `text` selects, as Caffe's test and time choose; the host for "", and where
// ChooseGpus returns none. Throws Error as ChooseGpus.
Device& ChooseDevice(const std::string& text, ChosenDriver driver = {});

// Logs "Use CPU." or "Using GPUs 0, 1", as Caffe does.
void LogDevices(const std::vector<Device*>& gpus);

// Lines for people: one for each GPU that `text` selects ("": all), then the versions of the
// software. Throws Error as ChooseGpus, and if there is no GPU.
std::vector<std::string> DescribeGpus(const std::string& text, ChosenDriver driver = {});

// As Caffe does without a flag: the GPU `device_id`, if the solver file has `solver_mode: GPU` and
// `driver` has any GPU; else none. Throws Error with file and line if the machine lacks that GPU.
std::vector<Device*> GpusOf(const SolverConfig& config, ChosenDriver driver = {});

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_CHOOSE_GPUS_H_
