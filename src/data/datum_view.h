// Reads a Datum record in place: parses the protobuf wire format and finds the image without
// copying it. Accepts exactly the inputs that protobuf's own parser accepts, and never reads
// outside the bytes given. All functions are thread-safe.
#ifndef MILLRACE_DATA_DATUM_VIEW_H_
#define MILLRACE_DATA_DATUM_VIEW_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::inline data {

// Views refer to the bytes that were parsed and are valid as long as these.
struct DatumView {
  int32_t channels = 0, height = 0, width = 0;
  int32_t label = 0;
  bool encoded = false;   // `data` is an image file; its size counts, not the above
  std::string_view data;  // uint8 values in (C, H, W) order, or that file
  uint64_t float_count = 0;
  std::string_view bytes;  // the whole record, for CopyFloats
};

// Returns whether `bytes` are a Datum. If not, `view` is undefined. Does not check the sizes: see
// CheckDatum.
bool ParseDatum(std::string_view bytes, DatumView* view);

// Writes the float_count floats of a parsed datum to `out`. The record may store them packed, one
// by one, or both, at any alignment. Writes no more than that if the bytes have changed since
// (those of a mapped file may).
void CopyFloats(const DatumView& view, float* out);

// Throws Error, without naming the record, unless the datum holds exactly channels x height x width
// values, as bytes or (only if there are no bytes) as floats, or is marked as an encoded image and
// holds bytes (see data/images/pixel_reader.h).
void CheckDatum(const DatumView& view);

// The name of a record in errors: "db: record '00000012'". One line, even if the key is
// binary or long.
std::string RecordName(std::string_view database, std::string_view key);

// Calls ParseDatum and CheckDatum. Errors name `database` and `key`.
DatumView ReadDatum(std::string_view database, std::string_view key, std::string_view bytes);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_DATUM_VIEW_H_
