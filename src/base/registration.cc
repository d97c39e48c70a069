#include "base/registration.h"

#include <mutex>
#include <utility>

#include "base/error.h"

namespace millrace::inline base {
namespace {

struct Mistakes {
  std::mutex mutex;
  std::vector<std::string> lines;

  static Mistakes& Get() {
    static Mistakes mistakes;
    return mistakes;
  }
};

}  // namespace

void ReportBadRegistration(const std::string& line) {
  Mistakes& mistakes = Mistakes::Get();
  std::lock_guard<std::mutex> lock(mistakes.mutex);
  mistakes.lines.push_back(line);
}

void ReportSecondRegistration(const std::string& kind, const std::string& name) {
  ReportBadRegistration(StrCat(kind, " ", name, ": two of them have this name, expected one"));
}

void CheckRegistrations() {
  Mistakes& mistakes = Mistakes::Get();
  std::lock_guard<std::mutex> lock(mistakes.mutex);
  if (!mistakes.lines.empty()) throw Error(mistakes.lines.front());
}

std::vector<std::string> TakeBadRegistrations() {
  Mistakes& mistakes = Mistakes::Get();
  std::lock_guard<std::mutex> lock(mistakes.mutex);
  return std::exchange(mistakes.lines, {});
}

}  // namespace millrace::inline base
