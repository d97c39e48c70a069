#include "proto/parse.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/text/utf8.h"
#include "proto/caffe.pb.h"

namespace millrace::inline proto {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

namespace {

using FieldSets = std::map<std::string, std::set<std::string>>;

// Choices of libraries, number types, threads and memory, of NVIDIA's and Intel's forks.
const FieldSets& Implementation() {
  static const FieldSets fields = {
      {"NetParameter",
       {"engine", "default_forward_type", "default_backward_type", "default_forward_math",
        "default_backward_math", "default_conv_algos_override", "default_cudnn_math_override",
        "global_grad_scale", "global_grad_scale_adaptive", "reduce_buckets", "optimize_mem"}},
      {"SolverParameter", {"engine", "solver_data_type", "data_type"}},
      {"LayerParameter",
       {"engine", "forward_type", "backward_type", "forward_math", "backward_math",
        "cudnn_math_override"}},
      {"ConvolutionParameter",
       {"conv_algos_override", "cudnn_convolution_algo_seeker", "deterministic"}},
      {"BatchNormParameter", {"engine"}},
      {"BNParameter", {"engine"}},
      {"EltwiseParameter", {"engine"}},
      {"ConcatParameter", {"engine"}},
      {"SplitParameter", {"engine"}},
      {"InnerProductParameter", {"engine"}},
      {"DropoutParameter", {"engine"}},
      {"DataParameter", {"threads", "parser_threads", "cache"}},
      {"ImageDataParameter", {"threads", "cache"}},
      {"TransformationParameter", {"use_gpu_transform"}},
      {"ReLUParameter", {"fuse"}},
  };
  return fields;
}

// Why a field of Caffe's forks, which does not change what a net is, has no effect, for a log line;
// "" if it must not be ignored. `message`: "LayerParameter".
std::string WhyIgnored(const std::string& message, const std::string& field) {
  if (message == "NetParameter" && field == "bn_stats_batch_size") {
    return "statistics are those of the whole batch";
  }
  if (message == "LayerParameter" && field == "quantization_param") {
    return "layers compute with floats";
  }
  const auto found = Implementation().find(message);
  if (found == Implementation().end() || found->second.count(field) == 0) return "";
  return "it chooses among implementations of a fork of Caffe";
}

}  // namespace

struct SourceMap::Tree {
  TextFormat::ParseInfoTree info;
  const Descriptor* root = nullptr;
};

Error Located(const SourceMap& source, const FieldError& error) {
  return Error(source.Where(error.field()), ": ", error.field(), ": ", error.what());
}

std::string SourceMap::Where(const std::string& path) const {
  if (!tree_) return file_;
  const std::string full = prefix_ + path;
  const TextFormat::ParseInfoTree* tree = &tree_->info;
  const Descriptor* type = tree_->root;
  int line = -1;
  size_t begin = 0;
  while (begin < full.size() && tree && type) {
    const size_t end = std::min(full.find('.', begin), full.size());
    std::string step = full.substr(begin, end - begin);
    begin = end + 1;
    int index = -1;
    if (const size_t bracket = step.find('['); bracket != std::string::npos) {
      index = std::stoi(step.substr(bracket + 1));
      step.resize(bracket);
    }
    const FieldDescriptor* field = type->FindFieldByName(step);
    if (!field) break;
    if (field->is_repeated() && index < 0) index = 0;
    const TextFormat::ParseLocation location = tree->GetLocation(field, index);
    if (location.line < 0) break;
    line = location.line;
    const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    type = nested ? field->message_type() : nullptr;
    tree = nested ? tree->GetTreeForNested(field, index) : nullptr;
  }
  return line < 0 ? file_ : StrCat(file_, ":", line + 1);
}

SourceMap SourceMap::Nested(const std::string& path) const {
  SourceMap nested = *this;
  nested.prefix_ += path + ".";
  return nested;
}

namespace {

// The messages of the formats are named as users know them ("caffe.LayerParameter"), without the
// packages that keep them apart from another program's and from this one's namespaces.
std::string WithoutPackage(std::string message) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"\"millrace.caffe.", "\"caffe."}, {"\"millrace.topology_file.", "\"topology."}};
  for (const auto& [package, name] : kNames) {
    for (size_t at; (at = message.find(package)) != std::string::npos;) {
      message.replace(at, package.size(), name);
    }
  }
  return message;
}

// Keeps the first error only: what follows it is usually its echo. Unknown fields are warnings of
// the parser; all of them are kept.
class Complaints : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int, const std::string& message) override {
    if (any_error_) return;
    any_error_ = true;
    lines_.emplace_back(std::max(line, 0), WithoutPackage(message));
  }
  void AddWarning(int line, int, const std::string& message) override {
    // Message type "millrace.caffe.LayerParameter" has no field named "x".
    if (message.find("has no field named") == std::string::npos) return;
    const auto quoted = [&](size_t from) {
      const size_t begin = message.find('"', from) + 1;
      return message.substr(begin, message.find('"', begin) - begin);
    };
    const std::string type = quoted(0), field = quoted(message.find("named"));
    const std::string why = WhyIgnored(type.substr(type.rfind('.') + 1), field);
    if (why.empty()) {
      lines_.emplace_back(std::max(line, 0), WithoutPackage(message));
      return;
    }
    Ignored& ignored = ignored_[{type, field}];
    if (ignored.count++ == 0) ignored.line = line, ignored.why = why;
  }
  // All of them, in one line.
  std::string Text(const std::string& name) const {
    constexpr size_t kMaxLines = 5;
    std::string text;
    for (size_t i = 0; i < lines_.size() && i < kMaxLines; ++i) {
      std::string message = lines_[i].second;
      if (lines_.size() > 1 && message.ends_with('.')) message.pop_back();
      text += StrCat(i == 0 ? "" : "; also ", name, ":", lines_[i].first + 1, ": ", message);
    }
    if (lines_.size() > kMaxLines) text += StrCat("; and ", lines_.size() - kMaxLines, " more");
    return text;
  }
  bool any() const { return !lines_.empty(); }

  void LogIgnored(const std::string& name) const {
    for (const auto& [field, ignored] : ignored_) {
      const std::string message = field.first.substr(field.first.rfind('.') + 1);
      LOG(INFO) << name << ":" << ignored.line + 1 << ": " << field.second << " of " << message
                << (ignored.count > 1 ? StrCat(", ", ignored.count, " times,") : "")
                << " is ignored: " << ignored.why;
    }
  }

 private:
  struct Ignored {
    int line = 0, count = 0;
    std::string why;
  };
  bool any_error_ = false;
  std::vector<std::pair<int, std::string>> lines_;
  std::map<std::pair<std::string, std::string>, Ignored> ignored_;  // by message and field
};

// Whether `text` has bytes that text files do not have.
bool IsBinary(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (c >= 0 && c < ' ' && (c < '\t' || c > '\r')) || c == 0x7f;
  });
}

// Parses `text`, which has no byte order mark.
bool ParseBody(std::string_view text, TextFormat::Parser* parser, Message* message) {
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  return parser->Parse(&input, message);
}

// The message that `text`, which is no `expected`, holds instead: "SolverParameter"; "" if none of
// those that users write.
std::string OtherMessage(std::string_view text, const Descriptor* expected) {
  const std::unique_ptr<Message> others[] = {std::make_unique<caffe::NetParameter>(),
                                             std::make_unique<caffe::SolverParameter>()};
  for (const auto& other : others) {
    Complaints ignored;
    TextFormat::Parser parser;
    parser.RecordErrorsTo(&ignored);
    if (other->GetDescriptor() != expected && ParseBody(text, &parser, other.get())) {
      return other->GetDescriptor()->name();
    }
  }
  return "";
}

}  // namespace

void ParseText(const std::string& text, const std::string& name, Message* message,
               SourceMap* source) {
  auto tree = std::make_shared<SourceMap::Tree>();
  tree->root = message->GetDescriptor();
  Complaints complaints;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&complaints);
  parser.AllowUnknownField(true);
  parser.WriteLocationsTo(&tree->info);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Error(name, ": is empty, expected a ", tree->root->name(), " in text form");
  }
  const std::string_view body = WithoutByteOrderMark(text);
  if (!ParseBody(body, &parser, message)) {
    if (IsBinary(text)) {
      throw Error(name, ": is a binary file, such as a .caffemodel or .solverstate; expected a ",
                  tree->root->name(), " in text form");
    }
    throw Error(complaints.any() ? complaints.Text(name) : StrCat(name, ": cannot be parsed"));
  }
  if (source) {
    source->file_ = name;
    source->prefix_.clear();
    source->tree_ = std::move(tree);
  }
  if (complaints.any()) {
    const Descriptor* const root = message->GetDescriptor();
    const std::string other = OtherMessage(body, root);
    if (!other.empty()) {
      throw Error(name, ": is a ", other, ", expected a ", root->name());
    }
    throw UnknownFields(complaints.Text(name));
  }
  complaints.LogIgnored(name);
}

void LoadText(const std::string& path, Message* message, SourceMap* source) {
  ParseText(ReadFile(path), path, message, source);
}

void LoadBinary(const std::string& path, const char* kind, Message* message) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(path, ": ", ErrnoText(errno));
  // Its complaints about a foreign file would come beside the one line of ours.
  const google::protobuf::LogSilencer quiet;
  bool parsed = false;
  int read_error = 0;
  bool empty = true;
  {
    google::protobuf::io::FileInputStream file(fd);
    google::protobuf::io::CodedInputStream coded(&file);
    coded.SetTotalBytesLimit(INT_MAX);
    parsed = message->ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
    read_error = file.GetErrno();
    empty = lseek(fd, 0, SEEK_END) == 0;
  }
  close(fd);
  if (read_error) throw Error(path, ": ", ErrnoText(read_error));
  if (empty) throw Error(path, ": is empty, expected ", kind);
  if (!parsed) throw Error(path, ": truncated or not ", kind);
}

void SaveText(const std::string& path, const Message& message) {
  std::string text;
  if (!TextFormat::PrintToString(message, &text)) throw Error(path, ": cannot be written as text");
  AtomicFile file(path);
  file.Write(text);
  file.Commit();
}

void SaveBinary(const std::string& path, const Message& message) {
  if (message.ByteSizeLong() > INT_MAX) {
    throw Error(path, ": ", message.ByteSizeLong(), " bytes do not fit the format's 2 GiB limit");
  }
  AtomicFile file(path);
  errno = 0;
  {
    google::protobuf::io::FileOutputStream stream(file.fd());
    const bool written = message.SerializeToZeroCopyStream(&stream) && stream.Flush();
    if (!written) {
      throw Error(path, ": cannot be written: ", ErrnoText(stream.GetErrno()));
    }
  }
  file.Commit();
}

}  // namespace millrace::inline proto
