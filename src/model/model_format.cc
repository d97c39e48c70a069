#include "model/model_format.h"

#include <map>

#include "base/error.h"
#include "base/registration.h"

namespace millrace::inline model {
namespace {

// The known formats, and what a build needs for them.
const std::map<std::string, std::string>& Needs() {
  static const std::map<std::string, std::string> needs = {{"onnx", "libonnx-dev"}};
  return needs;
}

std::map<std::string, WriteModelFile>& Writers() {
  static std::map<std::string, WriteModelFile> writers;
  return writers;
}

}  // namespace

RegisterModelFormat::RegisterModelFormat(const std::string& format, WriteModelFile write) {
  if (!Writers().emplace(format, write).second) {
    ReportBadRegistration(StrCat("model format '", format, "' is registered twice"));
  }
}

WriteModelFile FindModelFormat(const std::string& format) {
  const auto need = Needs().find(format);
  if (need == Needs().end()) throw Error("--to=", format, ": expected onnx");
  const auto writer = Writers().find(format);
  if (writer == Writers().end()) {
    throw Error("--to=", format, ": not in this build: install ", need->second, " and build again");
  }
  return writer->second;
}

}  // namespace millrace::inline model
