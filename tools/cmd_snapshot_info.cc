// millrace snapshot_info: tells what files of weights, solver states and image means hold.
#include <cstdio>

#include "base/error.h"
#include "model/stored_file.h"
#include "tools/command.h"
#include "tools/flags.h"

namespace millrace {
namespace {

int RunSnapshotInfo(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    throw Error("no file given, expected .caffemodel, .solverstate or mean files");
  }
  // A bad file leaves nothing printed.
  std::string text;
  for (const std::string& path : arguments) {
    const StoredFile file = ReadStoredFile(path);
    if (!text.empty()) text += FLAGS_json ? ",\n" : "\n";
    text += FLAGS_json ? StoredFileJson(file) : StoredFileText(file);
  }
  if (FLAGS_json) text = "[" + text + "]\n";
  std::fputs(text.c_str(), stdout);
  return 0;
}

const RegisterCommand registered_snapshot_info(
    {"snapshot_info",
     "FILE...",
     "tells what files of weights, solver states and means hold",
     {"json"},
     RunSnapshotInfo});

}  // namespace
}  // namespace millrace
