// Annotations in XML, read with Expat.
#include <expat.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <optional>

#include "contrib/annotated/annotation_file.h"

namespace millrace::inline contrib {
namespace {

// Newer versions of expat call their first function deprecated, older ones have only that.
template <typename Parser>
uint64_t LineOf(Parser parser) {
  if constexpr (requires { XML_GetCurrentLineNumber64(parser); }) {
    return XML_GetCurrentLineNumber64(parser);
  } else {
    return XML_GetCurrentLineNumber(parser);
  }
}

constexpr std::string_view kSpace = " \t\r\n";

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Takes the events of the parser. An error is kept until the parser has been left: its callbacks
// must not throw.
class VocReader {
 public:
  VocReader(std::string_view text, const std::string& file) : file_(file) {
    const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(
        XML_ParserCreate(nullptr), XML_ParserFree);
    if (!parser) throw Error(file, ": no memory for a parser");
    parser_ = parser.get();
    XML_SetUserData(parser_, this);
    XML_SetElementHandler(
        parser_,
        [](void* self, const XML_Char* name, const XML_Char**) {
          static_cast<VocReader*>(self)->Begin(name);
        },
        [](void* self, const XML_Char*) { static_cast<VocReader*>(self)->End(); });
    XML_SetCharacterDataHandler(parser_, [](void* self, const XML_Char* characters, int count) {
      auto* const reader = static_cast<VocReader*>(self);
      if (reader->text_.size() < kMaxTextBytes) reader->text_.append(characters, count);
    });
    const auto size = static_cast<int>(std::min<size_t>(text.size(), kMaxFileBytes + 1));
    if (text.size() > kMaxFileBytes)
      throw Error(file, ": is larger than ", kMaxFileBytes, " bytes");
    const XML_Status status = XML_Parse(parser_, text.data(), size, 1);
    if (!error_.empty()) throw Error(file_, ":", error_line_, ": ", error_);
    if (status != XML_STATUS_OK) {
      throw Error(file_, ":", LineOf(parser_),
                  ": is no well-formed XML: ", XML_ErrorString(XML_GetErrorCode(parser_)));
    }
    if (!annotation_) throw Error(file_, ": has no element <annotation> at its root");
  }

  const ParsedAnnotation& parsed() const { return parsed_; }

 private:
  static constexpr size_t kMaxTextBytes = 1000, kMaxFileBytes = 1 << 30, kMaxDepth = 100;

  void Begin(const char* name) {
    if (path_.size() > kMaxTextBytes || depth_++ > kMaxDepth) return Fail("is nested too deeply");
    path_ += '/';
    path_ += name;
    text_.clear();
    if (path_ == "/annotation") annotation_ = true;
    if (path_ == "/annotation/object") {
      object_ = {};
      for (bool& each : given_) each = false;
      begun_ = true;
    }
  }

  void End() {
    if (!error_.empty()) return;
    Take();
    path_.resize(path_.rfind('/'));
    --depth_;
    text_.clear();
  }

  // An element with its text has ended.
  void Take() {
    constexpr std::string_view kObject = "/annotation/object";
    if (path_ == "/annotation/size/height") parsed_.height = TakeSide();
    if (path_ == "/annotation/size/width") parsed_.width = TakeSide();
    if (!path_.starts_with(kObject)) return;
    const std::string_view field = std::string_view(path_).substr(kObject.size());
    if (field.empty()) return Finish();
    if (field == "/name") {
      object_.name = Trimmed(text_);
    } else if (field == "/difficult") {
      object_.difficult = Trimmed(text_) == "1";
    }
    const std::string_view corners[] = {"/bndbox/xmin", "/bndbox/ymin", "/bndbox/xmax",
                                        "/bndbox/ymax"};
    float* const values[] = {&object_.xmin, &object_.ymin, &object_.xmax, &object_.ymax};
    for (int i = 0; i < 4; ++i) {
      if (field != corners[i]) continue;
      *values[i] = TakeNumber();
      given_[i] = true;
    }
  }

  void Finish() {
    if (!begun_) return;
    begun_ = false;
    if (object_.name.empty()) return Fail("an object has no name");
    for (const bool given : given_) {
      if (!given) return Fail("an object has no bndbox with xmin, ymin, xmax and ymax");
    }
    parsed_.objects.push_back(object_);
  }

  float TakeNumber() {
    const std::string text = Trimmed(text_);
    float number = 0;
    const char* const end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end || !std::isfinite(number)) {
      Fail(StrCat("'", text.substr(0, 100), "': expected a number"));
      return 0;
    }
    return number;
  }

  // 0 if it is no size of an image, as in some published files.
  int TakeSide() {
    const float side = TakeNumber();
    constexpr float kMax = 1 << 24;
    return side >= 1 && side <= kMax ? static_cast<int>(side) : 0;
  }

  void Fail(const std::string& what) {
    if (!error_.empty()) return;
    error_ = what;
    error_line_ = LineOf(parser_);
    XML_StopParser(parser_, XML_FALSE);
  }

  const std::string& file_;
  XML_Parser parser_ = nullptr;
  std::string path_, text_, error_;
  uint64_t error_line_ = 0;
  size_t depth_ = 0;
  bool annotation_ = false, begun_ = false;
  NamedObject object_;
  bool given_[4] = {};
  ParsedAnnotation parsed_;
};

}  // namespace

ParsedAnnotation ParseVoc(std::string_view text, const std::string& file) {
  return VocReader(text, file).parsed();
}

}  // namespace millrace::inline contrib
