#include "base/part.h"

#include <algorithm>
#include <cmath>

#include "base/text/format.h"
#include "base/text/names.h"

namespace millrace {
namespace {

constexpr const char* kDigits = "0123456789";

// As a whole number is written, so that no number has two names.
bool IsNumber(const std::string& name) {
  return !name.empty() && name.size() <= 9 &&
         name.find_first_not_of(kDigits) == std::string::npos && (name == "0" || name[0] != '0');
}

std::string ExpectedValue(const PartParameter& parameter) {
  const char* const what = parameter.whole ? "a whole number" : "a number";
  if (std::isinf(parameter.least)) return "a finite number";
  if (std::isinf(parameter.most)) return StrCat(what, " >= ", parameter.least);
  return StrCat(what, " from ", parameter.least, " to ", parameter.most);
}

}  // namespace

bool PartParameter::Accepts(double value) const {
  return std::isfinite(value) && value >= least && value <= most &&
         (!whole || value == std::floor(value));
}

const PartParameter* PartDescriptor::FindParameter(const std::string& parameter) const {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(),
                   [&](const PartParameter& each) { return each.name == parameter; });
  return found == parameters.end() ? nullptr : &*found;
}

}  // namespace millrace
namespace millrace::inline base {

std::string ProblemOf(const PartDescriptor& part) {
  if (!IsName(part.name)) return StrCat("expected a name of ", kExpectedName);
  for (const PartParameter& each : part.parameters) {
    if (!IsName(each.name)) {
      return StrCat("parameter \"", each.name, "\": expected a name of ", kExpectedName);
    }
    if (part.FindParameter(each.name) != &each) {
      return StrCat("parameter ", each.name, " is there twice, expected it once");
    }
    if (!each.required && !each.Accepts(each.default_value)) {
      return StrCat("parameter ", each.name, " is ", each.default_value, " by default, expected ",
                    ExpectedValue(each));
    }
  }
  return "";
}

void ThrowUnknownPart(const std::string& kind, const std::string& field, const std::string& name,
                      const std::vector<std::string>& known) {
  if (name.empty()) {
    throw FieldError(field + ".type", "is missing, expected one of ", Joined(known));
  }
  throw FieldError(field + ".type", "unknown ", kind, " ", Quoted(name), ", expected one of ",
                   Joined(known));
}

PartValues CompleteValues(const std::string& kind, const std::string& field,
                          const PartDescriptor& part, const PartValues& given) {
  const std::string where = field + ".param";
  for (const auto& [name, value] : given) {
    const PartParameter* parameter = part.FindParameter(name);
    const PartParameter number{.name = name, .least = 0, .most = INFINITY};
    if (parameter == nullptr && part.numbered && IsNumber(name)) parameter = &number;
    if (parameter == nullptr) {
      std::vector<std::string> known;
      for (const PartParameter& each : part.parameters) known.push_back(each.name);
      if (part.numbered) known.push_back("a whole number");
      const std::string one_of = known.empty() ? "none" : "one of " + Joined(known);
      throw FieldError(where, kind, " ", part.name, " has no parameter ", Quoted(name),
                       ", expected ", one_of);
    }
    if (!parameter->Accepts(value)) {
      throw FieldError(where, name, " is ", value, ", expected ", ExpectedValue(*parameter));
    }
  }
  PartValues all = given;
  for (const PartParameter& each : part.parameters) {
    if (each.required && all.count(each.name) == 0) {
      throw FieldError(where, kind, " ", part.name, " needs the parameter ", each.name,
                       ", expected ", ExpectedValue(each));
    }
    if (!each.required) all.emplace(each.name, each.default_value);
  }
  return all;
}

}  // namespace millrace::inline base
