// Files of any bytes as .npz: arrays that can be written again, or a one-line
// error that names the file.
#include "model/arrays/array_file.h"
#include "model/arrays/zip.h"
#include "test/fuzz/support/arrays.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

std::vector<std::string> Corpus() {
  std::vector<std::string> corpus = {NpzOf(SomeArrays(), "f"), NpzOf({}, "f"), DeflatedNpz(), ""};
  // The files in them.
  for (const std::string& bytes : {corpus[0], corpus[2]}) {
    const ZipReader zip(bytes, "f");
    for (size_t i = 0; i < zip.names().size(); ++i) corpus.push_back(zip.Read(i));
  }
  return corpus;
}

// The bytes as an archive; and as a file in one, whose checksum is right.
bool Target(const std::string& input) {
  ZipWriter zip("f");
  zip.Add("a.npy", input);
  return ParsesOrNames(ParseNpz, NpzOf, input) && ParsesOrNames(ParseNpz, NpzOf, zip.Finish());
}

}  // namespace millrace::fuzz
