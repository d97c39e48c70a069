// ParseDatum accepts the same inputs as protobuf, and returns the same values.
#include <cstring>
#include <memory>

#include "base/error.h"
#include "data/datum_view.h"
#include "proto/caffe.pb.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

caffe::Datum Small(int label) {
  caffe::Datum datum;
  datum.set_channels(2);
  datum.set_height(3);
  datum.set_width(1);
  datum.set_label(label);
  return datum;
}

// Compares bits, so that a NaN equals itself.
bool SameFloats(const DatumView& view, const caffe::Datum& datum) {
  if (view.float_count != static_cast<uint64_t>(datum.float_data_size())) return false;
  std::vector<float> floats(view.float_count);
  CopyFloats(view, floats.data());
  return floats.empty() ||
         memcmp(floats.data(), datum.float_data().data(), floats.size() * sizeof(float)) == 0;
}

}  // namespace

std::vector<std::string> Corpus() {
  caffe::Datum bytes = Small(7), floats = Small(-1), encoded = Small(1 << 30);
  bytes.set_data("abcdef");
  for (int i = 0; i < 6; ++i) floats.add_float_data(0.5f * static_cast<float>(i));
  encoded.set_data(std::string(200, 'j'));
  encoded.set_encoded(true);
  const std::string packed("\x32\x08\x00\x00\x80\x3f\x00\x00\x00\x40", 10);
  const std::string unknown =
      std::string("\x53\x08\x01\x5b\x15") + "1234\x5c\x54\x4a\x03xyz\x59" + "12345678";
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += '\x53';
  for (int i = 0; i < 100; ++i) deep += '\x54';
  return {bytes.SerializeAsString(),
          floats.SerializeAsString(),
          encoded.SerializeAsString(),
          Small(2).SerializeAsString() + packed,
          Small(3).SerializeAsString() + unknown,
          deep,
          ""};
}

bool Target(const std::string& input) {
  // An exact-size block, so that a sanitizer detects any read beyond it.
  const std::unique_ptr<char[]> block(new char[input.size()]);
  memcpy(block.get(), input.data(), input.size());
  const std::string_view exact(block.get(), input.size());

  caffe::Datum datum;
  DatumView view;
  const bool expected = datum.ParseFromString(input);
  if (ParseDatum(exact, &view) != expected) return false;
  if (!expected) return true;
  try {
    CheckDatum(view);
  } catch (const Error&) {
  }
  return view.channels == datum.channels() && view.height == datum.height() &&
         view.width == datum.width() && view.label == datum.label() &&
         view.encoded == datum.encoded() && view.data == datum.data() && SameFloats(view, datum);
}

}  // namespace millrace::fuzz
