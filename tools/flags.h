// Flags that several commands share.
#ifndef MILLRACE_TOOLS_FLAGS_H_
#define MILLRACE_TOOLS_FLAGS_H_

#include <gflags/gflags_declare.h>

#include <string>
#include <vector>

#include "nn/gpu/gpu_settings.h"
#include "proto/caffe.pb.h"
#include "rendezvous/rendezvous.h"

DECLARE_string(model);
DECLARE_string(weights);
DECLARE_string(shm);
DECLARE_string(gpu);
DECLARE_string(rendezvous);
DECLARE_string(nodes);
DECLARE_bool(json);
DECLARE_int32(iterations);

namespace millrace {

// Throws Error if `value`, of a flag that a command requires, is empty.
void RequireFlag(const char* name, const std::string& value);

// What --precision, --gpu_fused_bias, --gpu_measure_seconds and --gpu_transform say. Throws Error
// for a wrong value.
GpuSettings GpuSettingsFromFlags();

// Splits "a,b" into {"a", "b"}; empty parts are dropped.
std::vector<std::string> SplitList(const std::string& text);

// Loads the shared libraries of --plugins, which register what they bring. They stay loaded. Throws
// Error with one line.
void LoadPlugins();

// The registry of an elastic run: --rendezvous and the flags that belong to it. A command without
// one of these flags gets its default. Nothing is checked.
RendezvousOptions RendezvousFromFlags();

// The net state from --phase (default: `default_value`), --level and --stage. As in Caffe, the
// stages that `net` has itself come first.
caffe::NetState NetStateFromFlags(const caffe::NetParameter& net,
                                  caffe::Phase default_value = caffe::TRAIN);

// What --level and --stage add to the train_state of a solver file: the level only if it is given.
caffe::NetState TrainStateFromFlags();

}  // namespace millrace

#endif  // MILLRACE_TOOLS_FLAGS_H_
