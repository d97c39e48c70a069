// A Datum record read where it lies: a walk over the bytes of the protobuf wire
// format that finds the image without copying it. Accepts exactly what
// protobuf's own parser accepts and never reads outside the bytes given.
// All functions are thread-safe.
#ifndef MILLRACE_DATA_DATUM_VIEW_H_
#define MILLRACE_DATA_DATUM_VIEW_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// Views point into the bytes that were parsed and live as long as they do.
struct DatumView {
  int32_t channels = 0, height = 0, width = 0;
  int32_t label = 0;
  bool encoded = false;   // `data` is an image file, whose size counts, not the above
  std::string_view data;  // uint8 values in (C, H, W) order, or that file
  uint64_t float_count = 0;
  std::string_view bytes;  // the whole record, for CopyFloats
};

// Whether `bytes` are a Datum; `view` is undefined if they are not. Says nothing
// about whether its sizes make sense: see CheckDatum.
bool ParseDatum(std::string_view bytes, DatumView* view);

// Writes the float_count floats of a parsed datum to `out`. They may lie packed,
// one by one, or both, at any alignment; so they are copied. No more are written if the
// bytes have changed since (a file that is mapped may).
void CopyFloats(const DatumView& view, float* out);

// Throws Error, without naming the record, unless the datum holds exactly
// channels x height x width values, as bytes or (only if there are none) floats,
// or is marked as an encoded image and holds bytes (see data/pixel_reader.h).
void CheckDatum(const DatumView& view);

// How errors name a record: "db: record '00000012'". Keys may be binary and long;
// this is one short printable line.
std::string RecordName(std::string_view database, std::string_view key);

// ParseDatum and CheckDatum; errors name `database` and `key`.
DatumView ReadDatum(std::string_view database, std::string_view key, std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_DATA_DATUM_VIEW_H_
