// What the registries of named parts (millrace/part.h) share.
#ifndef MILLRACE_BASE_PART_H_
#define MILLRACE_BASE_PART_H_

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/registration.h"
#include "millrace/error.h"
#include "millrace/part.h"

namespace millrace::inline base {

// What is wrong with a descriptor; "" if nothing.
std::string ProblemOf(const PartDescriptor& part);

// Throws FieldError(`field`.type, ...) for a part of kind `kind` that is not among `known`.
[[noreturn]] void ThrowUnknownPart(const std::string& kind, const std::string& field,
                                   const std::string& name, const std::vector<std::string>& known);

// `given` and the defaults of the other parameters. Throws FieldError(`field`.param, ...) in one
// line for a parameter that the part does not have, that is missing, or whose value is out of
// range.
PartValues CompleteValues(const std::string& kind, const std::string& field,
                          const PartDescriptor& part, const PartValues& given);

// The parts of one kind, by name. `Entry` has a member `part`, a PartDescriptor. Registration is
// not thread-safe; it happens before main(), or while a plugin is loaded, when no other thread uses
// the registry. The rest is thread-safe.
template <typename Entry>
class PartRegistry {
 public:
  // `kind`: for messages, such as "sync condition". Registers `entries`.
  explicit PartRegistry(std::string kind, std::initializer_list<Entry> entries = {})
      : kind_(std::move(kind)) {
    for (const Entry& entry : entries) Register(entry);
  }

  // Keeps the first part of a name. A second one, or a descriptor with a mistake, is reported
  // (base/registration.h).
  void Register(Entry entry) {
    const std::string name = entry.part.name;
    const std::string problem = ProblemOf(entry.part);
    if (problem.empty()) {
      if (!entries_.emplace(name, std::move(entry)).second) ReportSecondRegistration(kind_, name);
      return;
    }
    ReportBadRegistration(StrCat(kind_, " ", name, ": ", problem));
  }

  // Sorted.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }
  // `field`: path of the message that names the part. Throws FieldError(`field`.type, ...).
  const Entry& Find(const std::string& field, const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) ThrowUnknownPart(kind_, field, name, Names());
    return found->second;
  }
  // A part and all values of its parameters. Throws FieldError as Find and CompleteValues do.
  struct Choice {
    const Entry& entry;
    PartValues values;
  };
  Choice Choose(const std::string& field, const std::string& name, const PartValues& given) const {
    const Entry& entry = Find(field, name);
    return {entry, CompleteValues(kind_, field, entry.part, given)};
  }

 private:
  const std::string kind_;
  std::map<std::string, Entry> entries_;
};

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_PART_H_
