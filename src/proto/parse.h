// Reading and writing the formats. Errors name the file, the line and the
// field; text that a message has no field for is refused, but for fields of
// Caffe's forks that change nothing.
#ifndef MILLRACE_PROTO_PARSE_H_
#define MILLRACE_PROTO_PARSE_H_

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"

namespace google::protobuf {
class Message;
}

namespace millrace::inline proto {

// The error of text that is well-formed, but has fields that its messages lack. Names all of these
// fields in one line, in the order of the file. The message has been parsed without them.
class UnknownFields : public Error {
 public:
  using Error::Error;
};

// Remembers on which line of a text file each field stood. Cheap to copy.
class SourceMap {
 public:
  SourceMap() = default;
  // The map of a file without lines: every path gives the file alone.
  explicit SourceMap(std::string file) : file_(std::move(file)) {}

  const std::string& file() const { return file_; }

  // "net.prototxt:12" for a field path such as "layer[3].pooling_param.pad".
  // A path whose end is not in the file gives the line of what encloses it; a
  // path with nothing in the file gives the file alone.
  std::string Where(const std::string& path) const;

  // The map of a sub-message: paths are relative to `path` from then on.
  SourceMap Nested(const std::string& path) const;

 private:
  friend void LoadText(const std::string&, google::protobuf::Message*, SourceMap*);
  friend void ParseText(const std::string&, const std::string&, google::protobuf::Message*,
                        SourceMap*);
  struct Tree;

  std::string file_;
  std::string prefix_;
  std::shared_ptr<const Tree> tree_;
};

// A FieldError with its place: "net.prototxt:12: layer[3].name: ...", one line for the user.
Error Located(const SourceMap& source, const FieldError& error);

// Parses a text file into `message`. `source` may be null.
void LoadText(const std::string& path, google::protobuf::Message* message, SourceMap* source);

// The same for text already in memory; `name` stands for the file in errors.
void ParseText(const std::string& text, const std::string& name, google::protobuf::Message* message,
               SourceMap* source);

// Parses a binary file (.caffemodel, .solverstate, .binaryproto). An empty,
// truncated or foreign file gives one line; `kind` says what was expected.
void LoadBinary(const std::string& path, const char* kind, google::protobuf::Message* message);

// Write atomically: either the old file or the whole new one. SaveText writes the text form.
void SaveText(const std::string& path, const google::protobuf::Message& message);
void SaveBinary(const std::string& path, const google::protobuf::Message& message);

}  // namespace millrace::inline proto

#endif  // MILLRACE_PROTO_PARSE_H_
