// Records that a program or plugin gives as arrays.
#ifndef MILLRACE_CAPI_RECORD_H_
#define MILLRACE_CAPI_RECORD_H_

#include <string>

#include "millrace/plugin.h"

namespace millrace::inline capi {

// The bytes of a caffe.Datum with the values of `record`. Throws Error that begins with `where` if
// they are incomplete.
std::string DatumOf(const std::string& where, const millrace_record& record);

}  // namespace millrace::inline capi

#endif  // MILLRACE_CAPI_RECORD_H_
