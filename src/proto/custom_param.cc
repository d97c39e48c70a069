#include "proto/custom_param.h"

#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/text/names.h"

namespace millrace::inline proto {

double CustomNumber(const CustomParams& params, const std::string& key, double default_value) {
  const auto found = params.find(key);
  if (found == params.end()) return default_value;
  const std::string& text = found->second;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) {
    throw FieldError("custom_param", key, " is '", text, "', expected a number");
  }
  return value;
}

std::string CustomText(const CustomParams& params, const std::string& key,
                       const std::string& default_value) {
  const auto found = params.find(key);
  return found == params.end() ? default_value : found->second;
}

void CheckCustomParams(const CustomParams& params, const std::set<std::string>& known,
                       const std::string& owner) {
  for (const auto& [key, value] : params) {
    if (known.count(key) != 0) continue;
    if (known.empty()) throw FieldError("custom_param", owner, " has no such parameters");
    throw FieldError("custom_param", owner, " has no parameter ", key, ", expected one of ",
                     Joined(known));
  }
}

}  // namespace millrace::inline proto
