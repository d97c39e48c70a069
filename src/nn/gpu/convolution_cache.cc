#include "nn/gpu/convolution_cache.h"

#include <glog/logging.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/parse.h"

namespace millrace::inline nn {
namespace {

constexpr std::string_view kFirstLine = "millrace convolutions 2";
// Numbers of a problem.
constexpr int kNumbers = 16;

std::array<int64_t, kNumbers> NumbersOf(const ConvolutionProblem& p) {
  return {p.images,    p.channels, p.height,      p.width,      p.outputs,   p.out_height,
          p.out_width, p.group,    p.kernel[0],   p.kernel[1],  p.stride[0], p.stride[1],
          p.pad[0],    p.pad[1],   p.dilation[0], p.dilation[1]};
}

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// Takes the word up to the next blank, and that blank, from `*text`.
std::string_view TakeWord(std::string_view* text) {
  const size_t end = std::min(text->find(' '), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word;
}

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The key's part of a line. Returns false if it is not that of a key.
bool IsKey(std::string_view text) {
  if (!IsPrintable(text)) return false;
  if (!IsOneOf(TakeWord(&text), {"forward", "backward", "weight"})) return false;
  if (!IsOneOf(TakeWord(&text), {"fp32", "tf32", "bf16"})) return false;
  if (!ParseNumber<uint64_t>(TakeWord(&text))) return false;
  for (int i = 0; i < kNumbers; ++i) {
    const auto number = ParseNumber<int64_t>(TakeWord(&text));
    if (!number || *number < 0) return false;
  }
  return !text.empty();
}

}  // namespace

std::string TextOf(const ConvolutionKey& key) {
  std::string text = StrCat(key.pass, " ", key.arithmetic, " ", key.version);
  for (const int64_t number : NumbersOf(key.problem)) text += StrCat(" ", number);
  text += ' ';
  for (const char c : key.gpu) text += IsPrintable({&c, 1}) ? c : '?';
  return text;
}

ConvolutionChoices ParseConvolutionChoices(std::string_view text) {
  ConvolutionChoices choices;
  for (int number = 1; !text.empty() || number == 1; ++number) {
    const size_t end = text.find('\n');
    if (end == text.npos) throw Error("line ", number, ": the file ends within it");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (number == 1) {
      if (line != kFirstLine) throw Error("line 1: expected '", kFirstLine, "'");
      continue;
    }
    std::string_view key = line;
    const auto algorithm = ParseNumber<int>(TakeWord(&key));
    if (!algorithm || *algorithm < 0 || *algorithm > kMaxAlgorithm) {
      throw Error("line ", number, ": expected the number of an algorithm, from 0 to ",
                  kMaxAlgorithm);
    }
    const std::string_view origin = TakeWord(&key);
    if (!IsOneOf(origin, {"measured", "proposed"})) {
      throw Error("line ", number, ": expected 'measured' or 'proposed' behind the algorithm");
    }
    if (!IsKey(key)) {
      throw Error("line ", number, ": expected pass, arithmetic, version, ", kNumbers,
                  " numbers and the name of a GPU");
    }
    if (!choices.emplace(key, ConvolutionChoice{*algorithm, origin == "measured"}).second) {
      throw Error("line ", number, ": this convolution has an algorithm already");
    }
  }
  return choices;
}

std::string FormatConvolutionChoices(const ConvolutionChoices& choices) {
  std::string text = StrCat(kFirstLine, "\n");
  for (const auto& [key, choice] : choices) {
    text += StrCat(choice.algorithm, choice.measured ? " measured " : " proposed ", key, "\n");
  }
  return text;
}

std::optional<ConvolutionChoice> ConvolutionCache::Find(const ConvolutionKey& key) {
  std::lock_guard lock(mutex_);
  ReadOnce();
  const auto found = choices_.find(TextOf(key));
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

void ConvolutionCache::Store(const ConvolutionKey& key, const ConvolutionChoice& choice) {
  std::lock_guard lock(mutex_);
  ReadOnce();
  const std::string text = TextOf(key);
  const auto [at, is_new] = choices_.emplace(text, choice);
  if (!is_new && at->second == choice) return;
  at->second = own_[text] = choice;
  changed_ = true;
}

void ConvolutionCache::Save() {
  if (!changed_) return;
  std::lock_guard lock(mutex_);
  if (!changed_.exchange(false)) return;
  ConvolutionChoices all = own_;
  all.merge(Read());  // does not replace
  std::string text = FormatConvolutionChoices(all);
  if (text.size() > kMaxCacheBytes) text = FormatConvolutionChoices(own_);
  if (text.size() > kMaxCacheBytes) return;
  try {
    MakeDirectories(Dirname(path_));
    AtomicFile file(path_);
    file.Write(text);
    file.Commit();
  } catch (const Error& error) {
    if (!warned_) {
      LOG(WARNING) << error.what() << "; the algorithms of convolutions are not kept";
    }
    warned_ = true;
  }
}

void ConvolutionCache::ReadOnce() {
  if (!read_) choices_ = Read();
  read_ = true;
}

ConvolutionChoices ConvolutionCache::Read() {
  try {
    struct stat status;
    if (stat(path_.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return {};
      throw Error(ErrnoText(errno));
    }
    if (!S_ISREG(status.st_mode)) throw Error("not a regular file");
    if (status.st_size > static_cast<off_t>(kMaxCacheBytes)) {
      throw Error(status.st_size, " bytes, expected at most ", kMaxCacheBytes);
    }
    return ParseConvolutionChoices(ReadFile(path_));
  } catch (const Error& error) {
    if (!warned_) {
      LOG(WARNING) << path_ << ": " << error.what()
                   << "; ignoring this file of convolutions' algorithms, and replacing it";
    }
    warned_ = true;
    return {};
  }
}

std::string ConvolutionCachePath(const std::function<const char*(const char*)>& variable) {
  const auto value = [&](const char* name) {
    const char* const text = variable(name);
    return std::string(text == nullptr ? "" : text);
  };
  const std::string use = value("MILLRACE_CONVOLUTION_CACHE");
  if (use == "off") return "";
  if (!use.empty() && use != "on") {
    throw Error("MILLRACE_CONVOLUTION_CACHE=", OneLine(use), ": expected on or off");
  }
  const std::string cache = value("XDG_CACHE_HOME"), home = value("HOME");
  // Other than absolute paths are invalid there.
  if (cache.starts_with('/')) return cache + "/millrace/convolutions";
  return home.starts_with('/') ? home + "/.cache/millrace/convolutions" : "";
}

}  // namespace millrace::inline nn
