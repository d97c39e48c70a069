#include "data/datum_view.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/error.h"
#include "base/text/format.h"

namespace millrace::inline data {
namespace {

enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

// Fields of Datum in caffe.proto.
enum DatumField : uint32_t {
  kChannels = 1,
  kHeight = 2,
  kWidth = 3,
  kData = 4,
  kLabel = 5,
  kFloatData = 6,
  kEncoded = 7,
};

// The depth of nested groups that protobuf accepts.
constexpr int kMaxDepth = 100;

// Reads values from the front of the bytes. A method returns false if the requested value is not
// there; the reader is then unusable.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }

  // At most ten bytes; drops bits beyond the 64th, as protobuf does.
  bool Varint(uint64_t* value) {
    *value = 0;
    for (int i = 0; i < 10 && at_ < end_; ++i) {
      const auto byte = static_cast<uint8_t>(*at_++);
      *value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) return true;
    }
    return false;
  }

  // At most five bytes; drops bits beyond the 32nd, as protobuf does.
  bool Tag(uint32_t* field, uint32_t* type) {
    uint32_t tag = 0;
    for (int i = 0; i < 5 && at_ < end_; ++i) {
      const auto byte = static_cast<uint8_t>(*at_++);
      tag |= uint32_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) {
        *field = tag >> 3;
        *type = tag & 7;
        return *field != 0;
      }
    }
    return false;
  }

  bool Bytes(uint64_t size, std::string_view* bytes) {
    if (size > static_cast<uint64_t>(end_ - at_)) return false;
    *bytes = std::string_view(at_, size);
    at_ += size;
    return true;
  }

  bool LengthDelimited(std::string_view* bytes) {
    const char* begin = at_;
    uint64_t size;
    if (!Varint(&size) || at_ - begin > 5 || size > INT_MAX) return false;
    return Bytes(size, bytes);
  }

  // Skips a value of a field that is not used.
  bool Skip(uint32_t field, uint32_t type) {
    uint64_t number;
    std::string_view bytes;
    switch (type) {
      case kVarint:
        return Varint(&number);
      case kFixed64:
        return Bytes(8, &bytes);
      case kLengthDelimited:
        return LengthDelimited(&bytes);
      case kFixed32:
        return Bytes(4, &bytes);
      case kStartGroup:
        return SkipGroup(field);
      default:
        return false;
    }
  }

 private:
  bool SkipGroup(uint32_t field) {
    uint32_t open[kMaxDepth];
    int depth = 0;
    open[depth++] = field;
    while (depth > 0) {
      uint32_t type;
      if (!Tag(&field, &type)) return false;
      if (type == kEndGroup) {
        if (field != open[--depth]) return false;
      } else if (type == kStartGroup) {
        if (depth == kMaxDepth) return false;
        open[depth++] = field;
      } else if (!Skip(field, type)) {
        return false;
      }
    }
    return true;
  }

  const char* at_;
  const char* end_;
};

bool ReadNumber(WireReader* reader, uint32_t field, DatumView* view) {
  uint64_t value;
  if (!reader->Varint(&value)) return false;
  const auto number = static_cast<int32_t>(value);
  if (field == kChannels) view->channels = number;
  if (field == kHeight) view->height = number;
  if (field == kWidth) view->width = number;
  if (field == kLabel) view->label = number;
  if (field == kEncoded) view->encoded = value != 0;
  return true;
}

bool IsNumber(uint32_t field) {
  return (field >= kChannels && field <= kEncoded) && field != kData && field != kFloatData;
}

// Calls floats(bytes) for each run of floats that is not empty.
template <typename Floats>
bool Walk(std::string_view bytes, DatumView* view, Floats floats) {
  WireReader reader(bytes);
  while (!reader.done()) {
    uint32_t field, type;
    if (!reader.Tag(&field, &type)) return false;
    bool good;
    std::string_view run;
    if (type == kVarint && IsNumber(field)) {
      good = ReadNumber(&reader, field, view);
    } else if (type == kLengthDelimited && field == kData) {
      good = reader.LengthDelimited(&view->data);
    } else if (type == kLengthDelimited && field == kFloatData) {
      good = reader.LengthDelimited(&run) && run.size() % sizeof(float) == 0;
      if (good && !run.empty()) floats(run);
    } else if (type == kFixed32 && field == kFloatData) {
      good = reader.Bytes(sizeof(float), &run);
      if (good && !run.empty()) floats(run);
    } else {
      good = reader.Skip(field, type);
    }
    if (!good) return false;
  }
  return true;
}

}  // namespace

bool ParseDatum(std::string_view bytes, DatumView* view) {
  *view = DatumView();
  view->bytes = bytes;
  return Walk(bytes, view,
              [&](std::string_view run) { view->float_count += run.size() / sizeof(float); });
}

void CopyFloats(const DatumView& view, float* out) {
  DatumView ignored;
  uint64_t left = view.float_count;
  Walk(view.bytes, &ignored, [&](std::string_view run) {
    const uint64_t count = std::min<uint64_t>(run.size() / sizeof(float), left);
    memcpy(out, run.data(), count * sizeof(float));
    out += count;
    left -= count;
  });
}

void CheckDatum(const DatumView& view) {
  if (view.encoded) {
    if (view.data.empty()) throw Error("is marked as an encoded image but holds no bytes");
    return;
  }
  if (view.channels <= 0 || view.height <= 0 || view.width <= 0) {
    throw Error("has ", view.channels, " channels of ", view.height, " x ", view.width,
                ", expected a Datum with positive sizes");
  }
  const bool bytes = !view.data.empty();
  const uint64_t values = bytes ? view.data.size() : view.float_count;
  const uint64_t plane = uint64_t(view.height) * uint64_t(view.width);  // below 2^62
  if (values % plane != 0 || values / plane != uint64_t(view.channels)) {
    throw Error("holds ", values, bytes ? " bytes" : " floats", ", expected ", view.channels, " x ",
                view.height, " x ", view.width);
  }
}

std::string RecordName(std::string_view database, std::string_view key) {
  constexpr size_t kLongest = 1024;
  const bool cut = key.size() > kLongest;
  return StrCat(database, ": record ", Quoted(key.substr(0, kLongest)), cut ? " (cut)" : "");
}

DatumView ReadDatum(std::string_view database, std::string_view key, std::string_view bytes) {
  DatumView view;
  if (!ParseDatum(bytes, &view)) throw Error(RecordName(database, key), ": is not a Datum");
  try {
    CheckDatum(view);
  } catch (const Error& error) {
    throw Error(RecordName(database, key), ": ", error.what());
  }
  return view;
}

}  // namespace millrace::inline data
