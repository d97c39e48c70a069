// Algorithms that were chosen for convolutions, kept in a file from one run to the next: measuring
// them takes long, and so do a library's heuristics.
#ifndef MILLRACE_NN_GPU_CONVOLUTION_CACHE_H_
#define MILLRACE_NN_GPU_CONVOLUTION_CACHE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "nn/gpu/gpu_library.h"

namespace millrace::inline nn {

// What the choice of an algorithm depends on.
struct ConvolutionKey {
  const char* pass;        // "forward", "backward" or "weight"
  const char* arithmetic;  // "fp32", "tf32" or "bf16"
  uint64_t version;        // of the library
  ConvolutionProblem problem;
  std::string gpu;  // the model's name; not empty
};

// The key as the file has it: one line of printable ASCII.
std::string TextOf(const ConvolutionKey& key);

struct ConvolutionChoice {
  int algorithm;
  bool measured;  // as the fastest; else a proposal of heuristics

  bool operator==(const ConvolutionChoice&) const = default;
};

// By the text of their key.
using ConvolutionChoices = std::map<std::string, ConvolutionChoice>;

inline constexpr int kMaxAlgorithm = 31;
inline constexpr size_t kMaxCacheBytes = size_t{1} << 20;

// The content of a file: a first line, and for each choice a line
//   ALGORITHM "measured" or "proposed" PASS ARITHMETIC VERSION, the numbers of the problem in the
//   order of its fields, GPU
// Throws Error for any other text.
ConvolutionChoices ParseConvolutionChoices(std::string_view text);
std::string FormatConvolutionChoices(const ConvolutionChoices& choices);

// Thread-safe. A file that cannot be read, or holds anything else, counts as empty and is replaced
// at the next Save, with one warning. Who uses a choice must check it: the file may be old.
class ConvolutionCache {
 public:
  // Reads the file at the first Find. It need not exist, nor its folder.
  explicit ConvolutionCache(const std::string& path) : path_(path) {}

  std::optional<ConvolutionChoice> Find(const ConvolutionKey& key);
  void Store(const ConvolutionKey& key, const ConvolutionChoice& choice);
  // Writes the choices to the file if Store has changed them; those that other processes have added
  // meanwhile remain. Costs little otherwise. If the file cannot be written, warns once.
  void Save();

 private:
  ConvolutionChoices Read();
  void ReadOnce();

  const std::string path_;
  std::mutex mutex_;
  bool read_ = false, warned_ = false;
  ConvolutionChoices choices_, own_;  // known; stored by this process
  std::atomic<bool> changed_{false};
};

// The file for this user: $XDG_CACHE_HOME/millrace/convolutions, or that in $HOME/.cache. "" if
// neither variable names a folder, or MILLRACE_CONVOLUTION_CACHE is "off". Throws Error if that is
// anything but "on" or "off". `variable` is std::getenv, or a test's.
std::string ConvolutionCachePath(const std::function<const char*(const char*)>& variable);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CONVOLUTION_CACHE_H_
