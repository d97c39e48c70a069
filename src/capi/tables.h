// What the tables of functions of the C API have in common: checks, state, parameters.
#ifndef MILLRACE_CAPI_TABLES_H_
#define MILLRACE_CAPI_TABLES_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "capi/call.h"
#include "millrace/part.h"
#include "millrace/plugin.h"

// The values that a file gives to the parameters of a part.
struct millrace_values {
  const millrace::PartValues& values;
};

namespace millrace::inline capi {

// Throws Error unless a function that every table needs is there.
template <typename Function>
void CheckFunction(const char* function, const char* field, Function given) {
  if (given == nullptr) throw Error(function, ": ", field, " is NULL, expected a function");
}
// The name in a table. Throws Error if there is none.
std::string CheckedName(const char* function, const char* name);

// Throws Error unless `key` is one of the parameters that a table declares. `kind`: what the table
// is of, with a blank behind it.
template <typename Table>
void ExpectKey(const char* kind, const Table& table, const std::string& key) {
  if (std::find(table.parameters.begin(), table.parameters.end(), key) != table.parameters.end()) {
    return;
  }
  throw Error(kind, table.name, ": '", key, "' is not one of its parameters");
}

// A table's parameters, as a part has them and as a merge rule has them. Throw Error for a struct
// of a wrong size.
std::vector<PartParameter> PartParametersOf(const char* function,
                                            const millrace_parameter* const* parameters);

// An object that a table's `create` has made.
using State = std::unique_ptr<void, void (*)(void*)>;

inline void DestroyNothing(void*) {}

// Calls create(arguments..., &state), which may be null. Throws its error.
template <typename Create, typename... Arguments>
State MakeState(const std::string& what, Create create, void (*destroy)(void*),
                Arguments... arguments) {
  void* state = nullptr;
  if (create != nullptr) Callback(what + ": create", create, arguments..., &state);
  return {state, destroy == nullptr || create == nullptr ? &DestroyNothing : destroy};
}

}  // namespace millrace::inline capi

#endif  // MILLRACE_CAPI_TABLES_H_
