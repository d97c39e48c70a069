// The part of Python's pickles that torch.save writes for a dict of tensors. Nothing is executed:
// the reader knows a few opcodes and the names of a few functions of PyTorch, and refuses all
// others.
#ifndef MILLRACE_MODEL_ARRAYS_PICKLE_H_
#define MILLRACE_MODEL_ARRAYS_PICKLE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::inline model {

struct PickleValue {
  enum class Kind {
    kNone,
    kBool,     // number
    kInt,      // number
    kFloat,    // its value is not kept
    kText,     // text
    kTuple,    // items
    kList,     // items
    kDict,     // pairs
    kGlobal,   // text: "MODULE NAME"
    kStorage,  // items: what identifies stored data, as the tuple that PyTorch writes
    kTensor,   // items: the arguments of torch._utils._rebuild_tensor_v2
    kMark,
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;
  std::string text;
  std::vector<const PickleValue*> items;
  std::vector<std::pair<const PickleValue*, const PickleValue*>> pairs;
};

// "a number", "a text": what a value is, for messages.
const char* Describe(const PickleValue& value);

class Pickle {
 public:
  // Throws Error naming `where`, the byte and the opcode, the function or the class that is not
  // among those which a dict of tensors needs.
  Pickle(std::string_view bytes, const std::string& where);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  // Belongs to this object, as all values that it refers to.
  const PickleValue& value() const { return *value_; }

 private:
  std::deque<PickleValue> values_;  // a value may contain itself; nothing here follows it
  const PickleValue* value_ = nullptr;
};

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_ARRAYS_PICKLE_H_
