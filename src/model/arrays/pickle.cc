#include "model/arrays/pickle.h"

#include <array>
#include <map>

#include "base/error.h"
#include "model/arrays/byte_reader.h"

namespace millrace::inline model {
namespace {

using Kind = PickleValue::Kind;
using Value = PickleValue;

// Limit of memory: a state dict of a million tensors has this many objects.
constexpr size_t kMaxPickleValues = 64'000'000;

// Opcodes of Lib/pickletools.py, by their names there.
enum Opcode : uint8_t {
  kMark = '(',
  kEmptyTuple = ')',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersid = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
};

constexpr const char* kOrderedDict = "collections OrderedDict";
constexpr const char* kTensor = "torch._utils _rebuild_tensor_v2";
constexpr const char* kParameter = "torch._utils _rebuild_parameter";

// The functions and classes that may be named. "torch ...Storage" tells the type of numbers.
bool IsAllowed(const std::string& name) {
  return name == kOrderedDict || name == kTensor || name == kParameter ||
         (name.starts_with("torch ") && name.ends_with("Storage"));
}

class Machine {
 public:
  Machine(std::string_view bytes, const std::string& where, std::deque<Value>* values)
      : reader_(bytes, where), where_(where), values_(*values) {}

  const Value* Run() {
    if (reader_.Number<uint8_t>() != kProto || reader_.Number<uint8_t>() != 2) {
      reader_.Fail("expected a pickle of protocol 2");
    }
    for (;;) {
      const auto opcode = reader_.Number<uint8_t>();
      if (opcode == kStop) break;
      Step(opcode);
    }
    if (stack_.size() != 1) reader_.Fail("expected one value at the end");
    return stack_.back();
  }

 private:
  void Step(uint8_t opcode) {
    switch (opcode) {
      case kMark:
        return void(Push(Kind::kMark));
      case kEmptyTuple:
        return void(Push(Kind::kTuple));
      case kEmptyList:
        return void(Push(Kind::kList));
      case kEmptyDict:
        return void(Push(Kind::kDict));
      case kNone:
        return void(Push(Kind::kNone));
      case kNewTrue:
      case kNewFalse:
        Push(Kind::kBool)->number = opcode == kNewTrue;
        return;
      case kBinInt:
        Push(Kind::kInt)->number = reader_.Number<int32_t>();
        return;
      case kBinInt1:
        Push(Kind::kInt)->number = reader_.Number<uint8_t>();
        return;
      case kBinInt2:
        Push(Kind::kInt)->number = reader_.Number<uint16_t>();
        return;
      case kLong1:
        return PushLong();
      case kBinFloat:
        reader_.Take(8);
        return void(Push(Kind::kFloat));
      case kBinUnicode: {
        const auto bytes = reader_.Number<uint32_t>();
        Push(Kind::kText)->text = reader_.Take(bytes);
        return;
      }
      case kGlobal: {
        const std::string module = Line();
        const std::string name = module + " " + Line();
        if (!IsAllowed(name)) {
          throw Error(where_, ": names '", name,
                      "', which a dict of tensors does not need; nothing was executed");
        }
        Push(Kind::kGlobal)->text = name;
        return;
      }
      case kBinPut:
        memo_[reader_.Number<uint8_t>()] = Top();
        return;
      case kLongBinPut:
        memo_[reader_.Number<uint32_t>()] = Top();
        return;
      case kBinGet:
        return PushMemo(reader_.Number<uint8_t>());
      case kLongBinGet:
        return PushMemo(reader_.Number<uint32_t>());
      case kTuple:
        return PushItems(Kind::kTuple, PopToMark());
      case kTuple1:
        return PushItems(Kind::kTuple, PopItems(1));
      case kTuple2:
        return PushItems(Kind::kTuple, PopItems(2));
      case kTuple3:
        return PushItems(Kind::kTuple, PopItems(3));
      case kAppend:
        return Append(PopItems(1));
      case kAppends:
        return Append(PopToMark());
      case kSetItem:
        return SetItems(PopItems(2));
      case kSetItems:
        return SetItems(PopToMark());
      case kBinPersid: {
        const Value* const id = Pop();
        if (id->kind != Kind::kTuple) reader_.Fail("a storage that is no tuple");
        return PushItems(Kind::kStorage, id->items);
      }
      case kReduce:
        return Reduce();
      case kBuild:
        // Attributes of an OrderedDict (_metadata), which nothing here needs.
        Pop();
        if (Top()->kind != Kind::kDict) reader_.Fail("attributes of something else than a dict");
        return;
      default:
        reader_.Fail(StrCat("opcode ", +opcode, ", which a dict of tensors does not need"));
    }
  }

  Value* Push(Kind kind) {
    if (values_.size() >= kMaxPickleValues) reader_.Fail("too many values");
    values_.emplace_back().kind = kind;
    stack_.push_back(&values_.back());
    return &values_.back();
  }
  void PushItems(Kind kind, std::vector<const Value*> items) {
    Push(kind)->items = std::move(items);
  }
  // Little-endian, two's complement.
  void PushLong() {
    const std::string_view bytes = reader_.Take(reader_.Number<uint8_t>());
    if (bytes.size() > 8) reader_.Fail("an integer of more than 64 bits");
    uint64_t number = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;) {
      number = number << 8 | static_cast<uint8_t>(bytes[i]);
    }
    Push(Kind::kInt)->number = static_cast<int64_t>(number);
  }
  void PushMemo(uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) reader_.Fail("a value that has not been stored");
    stack_.push_back(found->second);
  }

  Value* Top() {
    if (stack_.empty() || stack_.back()->kind == Kind::kMark) reader_.Fail("no value");
    return stack_.back();
  }
  Value* Pop() {
    Value* const top = Top();
    stack_.pop_back();
    return top;
  }
  std::vector<const Value*> PopItems(size_t count) {
    std::vector<const Value*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = Pop();
    return items;
  }
  std::vector<const Value*> PopToMark() {
    size_t begin = stack_.size();
    while (begin > 0 && stack_[begin - 1]->kind != Kind::kMark) --begin;
    if (begin == 0) reader_.Fail("no mark");
    std::vector<const Value*> items(stack_.begin() + static_cast<ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin - 1);
    return items;
  }

  void Append(const std::vector<const Value*>& items) {
    Value* const list = Top();
    if (list->kind != Kind::kList) reader_.Fail("items of something else than a list");
    list->items.insert(list->items.end(), items.begin(), items.end());
  }
  void SetItems(const std::vector<const Value*>& items) {
    Value* const dict = Top();
    if (dict->kind != Kind::kDict || items.size() % 2 != 0) {
      reader_.Fail("pairs of something else than a dict");
    }
    for (size_t i = 0; i < items.size(); i += 2) dict->pairs.emplace_back(items[i], items[i + 1]);
  }

  // Calls of the functions that are known make values, and nothing else.
  void Reduce() {
    const Value* const arguments = Pop();
    const Value* const function = Pop();
    if (function->kind != Kind::kGlobal || arguments->kind != Kind::kTuple) {
      reader_.Fail("a call of something else than a function");
    }
    if (function->text == kOrderedDict && arguments->items.empty()) {
      Push(Kind::kDict);
    } else if (function->text == kTensor) {
      PushItems(Kind::kTensor, arguments->items);
    } else if (function->text == kParameter && !arguments->items.empty() &&
               arguments->items[0]->kind == Kind::kTensor) {
      PushItems(Kind::kTensor, arguments->items[0]->items);
    } else {
      reader_.Fail("a call of " + function->text);
    }
  }

  std::string Line() {
    std::string line;
    for (;;) {
      const char c = reader_.Take(1)[0];
      if (c == '\n') return line;
      line.push_back(c);
      if (line.size() > 200) reader_.Fail("a name of more than 200 bytes");
    }
  }

  ByteReader reader_;
  const std::string& where_;
  std::deque<Value>& values_;
  std::vector<Value*> stack_;
  std::map<uint32_t, Value*> memo_;
};

}  // namespace

const char* Describe(const PickleValue& value) {
  constexpr std::array kNames = {"None",       "a boolean", "a number", "a number",
                                 "a text",     "a tuple",   "a list",   "a dict",
                                 "a function", "a storage", "a tensor", "a mark"};
  return kNames[static_cast<size_t>(value.kind)];
}

Pickle::Pickle(std::string_view bytes, const std::string& where)
    : value_(Machine(bytes, where, &values_).Run()) {}

}  // namespace millrace::inline model
