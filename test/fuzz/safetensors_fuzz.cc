// Files of any bytes as safetensors: arrays that can be written again, or a
// one-line error that names the file.
#include "model/arrays/array_file.h"
#include "test/fuzz/support/arrays.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

std::vector<std::string> Corpus() {
  const std::string metadata = R"({"__metadata__":{"format":"pt","\u00e4":"\ud83d\ude00"},)"
                               R"("a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}})";
  const uint64_t bytes = metadata.size();
  return {SafetensorsOf(SomeArrays(), "f"), SafetensorsOf({}, "f"),
          std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes)) + metadata + "xy", ""};
}

bool Target(const std::string& input) {
  return ParsesOrNames(ParseSafetensors, SafetensorsOf, input);
}

}  // namespace millrace::fuzz
