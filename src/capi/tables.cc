#include "capi/tables.h"

#include <limits>

namespace millrace::inline capi {

std::string CheckedName(const char* function, const char* name) {
  const std::string text = GivenText(function, "name", name);
  if (text.empty()) throw Error(function, ": name is \"\", expected a text");
  return text;
}

std::vector<PartParameter> PartParametersOf(const char* function,
                                            const millrace_parameter* const* parameters) {
  std::vector<PartParameter> all;
  for (; parameters != nullptr && *parameters != nullptr; ++parameters) {
    const millrace_parameter given = Taken(function, "millrace_parameter", *parameters);
    all.push_back({.name = GivenText(function, "name of a parameter", given.name),
                   .default_value = given.otherwise,
                   .least = given.min,
                   .most = given.max,
                   .whole = given.whole != 0,
                   .required = given.required != 0});
  }
  return all;
}

}  // namespace millrace::inline capi

double millrace_value(const millrace_values* values, const char* name) {
  const char* const function = __func__;
  return millrace::ValueOf(function, std::numeric_limits<double>::quiet_NaN(), [&] {
    const std::string text = millrace::GivenText(function, "name", name);
    const millrace::PartValues& all = millrace::Given(function, "values", values).values;
    const auto found = all.find(text);
    if (found != all.end()) return found->second;
    throw millrace::Error(function, ": there is no parameter '", text, "'");
  });
}
