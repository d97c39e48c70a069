// millrace device_query: lists the GPUs of this machine.
#include <cstdio>

#include "tools/command.h"
#include "tools/flags.h"
#include "train/choose_gpus.h"

namespace millrace {
namespace {

int RunDeviceQuery(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  for (const std::string& line : DescribeGpus(FLAGS_gpu)) {
    std::printf("%s\n", line.c_str());
  }
  return 0;
}

const RegisterCommand registered_device_query({"device_query",
                                               "",
                                               "lists the GPUs of this machine",
                                               {"gpu", "plugins"},
                                               RunDeviceQuery,
                                               {"solver", "model", "phase", "level", "stage",
                                                "snapshot", "weights", "iterations",
                                                "sigint_effect", "sighup_effect"},
                                               "millrace device_query --gpu=0"});

}  // namespace
}  // namespace millrace
