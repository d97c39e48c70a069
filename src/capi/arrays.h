// Shapes, blobs and records as structs of the C API.
#ifndef MILLRACE_CAPI_ARRAYS_H_
#define MILLRACE_CAPI_ARRAYS_H_

#include <string>

#include "millrace/blob.h"
#include "millrace/millrace.h"
#include "millrace/plugin.h"

namespace millrace::inline capi {

// `name`: owned by the handle. `with_data`, `with_diff`: the addresses of values and of gradients,
// whose memory is allocated if it does not exist yet; else they are null. Throws Error for a blob
// of more axes than the struct has.
millrace_array ArrayOf(const char* name, const Blob& blob, bool with_data, bool with_diff);

// Throws Error naming `function` unless these are lengths of a blob.
Shape ShapeFrom(const char* function, const int64_t* shape, int axes);

// The bytes of a caffe.Datum with the values of `record`. Throws Error that begins with `where` if
// they are incomplete.
std::string DatumOf(const std::string& where, const millrace_record& record);

}  // namespace millrace::inline capi

#endif  // MILLRACE_CAPI_ARRAYS_H_
