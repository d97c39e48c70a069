// Named parts that a solver file chooses and sets with numbers: strategies, sync conditions, stop
// conditions, samplers.
//
//   stop_condition { type: "seconds" param { key: "most" value: 3600 } }
#ifndef MILLRACE_PART_H_
#define MILLRACE_PART_H_

#include <map>
#include <string>
#include <vector>

#include "millrace/export.h"

namespace millrace {

// Values of a part's parameters, by name.
using PartValues = std::map<std::string, double>;

struct MILLRACE_API PartParameter {
  std::string name;          // lower-case letters, digits, '_'
  double default_value = 0;  // the default; not used if `required`
  double least = 0;          // the range, inclusive
  double most = 0;           // infinity: no upper limit; values are finite in any case
  bool whole = false;        // only whole numbers
  bool required = false;     // a file that chooses the part has to give this parameter

  // False for NaN too.
  bool Accepts(double value) const;
};

struct MILLRACE_API PartDescriptor {
  std::string name;  // as solver files name it: lower-case letters, digits, '_'
  std::vector<PartParameter> parameters = {};
  // Whether the whole numbers from 0 on are names of parameters too, of finite values from 0 on.
  bool numbered = false;

  // Null if there is none of that name.
  const PartParameter* FindParameter(const std::string& parameter) const;
};

}  // namespace millrace

#endif  // MILLRACE_PART_H_
