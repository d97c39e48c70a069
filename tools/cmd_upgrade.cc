// The commands that write nets and solver files of Caffe's earlier formats in today's, with Caffe's
// names.
#include <glog/logging.h>

#include "base/error.h"
#include "proto/upgrade.h"
#include "tools/command.h"

namespace millrace {
namespace {

constexpr char kUsage[] = "the file to read and the file to write";

// Returns the exit status: 1 if something was dropped.
int Upgrade(const std::string& path, const SourceMap& source, caffe::NetParameter* net) {
  const NetUpgrade upgrade = UpgradeNet(source, net);
  if (upgrade.changes.empty()) LOG(INFO) << path << ": is in today's format already";
  for (const std::string& change : upgrade.changes) LOG(INFO) << path << ": upgraded " << change;
  for (const std::string& problem : upgrade.problems) LOG(ERROR) << problem;
  return upgrade.problems.empty() ? 0 : 1;
}

int UpgradeNetText(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 2, kUsage);
  caffe::NetParameter net;
  SourceMap source;
  LoadText(arguments[0], &net, &source);
  const int status = Upgrade(arguments[0], source, &net);
  SaveText(arguments[1], net);
  LOG(INFO) << "Wrote " << arguments[1];
  return status;
}

int UpgradeNetBinary(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 2, kUsage);
  caffe::NetParameter net;
  LoadBinary(arguments[0], "a net in binary form", &net);
  const int status = Upgrade(arguments[0], SourceMap(arguments[0]), &net);
  SaveBinary(arguments[1], net);
  LOG(INFO) << "Wrote " << arguments[1];
  return status;
}

int UpgradeSolverText(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 2, kUsage);
  caffe::SolverParameter solver;
  SourceMap source;
  LoadText(arguments[0], &solver, &source);
  try {
    if (!UpgradeSolver(&solver)) LOG(INFO) << arguments[0] << ": is in today's format already";
  } catch (const FieldError& error) {
    throw Located(source, error);
  }
  SaveText(arguments[1], solver);
  LOG(INFO) << "Wrote " << arguments[1];
  return 0;
}

const RegisterCommand net_text({"upgrade_net_proto_text",
                                "INPUT OUTPUT",
                                "writes an old net file in today's format",
                                {},
                                UpgradeNetText});
const RegisterCommand net_binary({"upgrade_net_proto_binary",
                                  "INPUT OUTPUT",
                                  "writes an old .caffemodel in today's format",
                                  {},
                                  UpgradeNetBinary});
const RegisterCommand solver_text({"upgrade_solver_proto_text",
                                   "INPUT OUTPUT",
                                   "writes an old solver file in today's format",
                                   {},
                                   UpgradeSolverText});

}  // namespace
}  // namespace millrace
