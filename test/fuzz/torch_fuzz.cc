// Pickles of any bytes in files of torch.save: arrays, or a one-line error that names the file.
#include "model/arrays/array_file.h"
#include "model/arrays/zip.h"
#include "test/fuzz/support/arrays.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

std::string Global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string Text(const std::string& text) {
  const auto bytes = static_cast<uint32_t>(text.size());
  return "X" + std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes)) + text;
}

// One tensor of 2 x 2 numbers.
std::string TensorOf(const std::string& key) {
  return Global("torch._utils", "_rebuild_tensor_v2") + "((" + Text("storage") +
         Global("torch", "HalfStorage") + Text(key) + Text("cpu") + "K\4tQ" +
         std::string("K\0", 2) + "K\2K\2\x86K\2K\1\x86\x89" + Global("collections", "OrderedDict") +
         ")RtR";
}

}  // namespace

std::vector<std::string> Corpus() {
  const std::string ordered = "\x80\x02" + Global("collections", "OrderedDict") + ")R";
  return {ordered + "q\1(" + Text("w") + "q\2" + TensorOf("0") + Text("b") + TensorOf("1") + "u}(" +
              Text("_metadata") + ordered.substr(2) + "h\2h\1sub.",
          ordered + Text("p") + Global("torch._utils", "_rebuild_parameter") + "(" + TensorOf("0") +
              "\x88Nr" + std::string("\1\0\0\0tRs.", 8),
          "\x80\x02}.", ""};
}

bool Target(const std::string& input) {
  ZipWriter zip("f");
  zip.Add("archive/data.pkl", input);
  zip.Add("archive/data/0", "12345678");
  zip.Add("archive/data/1", "abcdefgh");
  return ParsesOrNames(ParseTorch, SafetensorsOf, zip.Finish());
}

}  // namespace millrace::fuzz
