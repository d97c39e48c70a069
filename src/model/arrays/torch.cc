// State dicts of PyTorch: what torch.save(model.state_dict(), path) writes since PyTorch 1.6, a ZIP
// archive with a pickle of the dict, PREFIX/data.pkl, and the numbers of each storage,
// PREFIX/data/KEY. Tensors are views of storages.
#include <map>

#include "base/error.h"
#include "model/arrays/array_file.h"
#include "model/arrays/pickle.h"
#include "model/arrays/zip.h"

namespace millrace::inline model {
namespace {

using Kind = PickleValue::Kind;

const std::map<std::string, ElementType>& Storages() {
  static const std::map<std::string, ElementType> storages = {
      {"torch BoolStorage", ElementType::kBool},
      {"torch ByteStorage", ElementType::kUint8},
      {"torch CharStorage", ElementType::kInt8},
      {"torch ShortStorage", ElementType::kInt16},
      {"torch IntStorage", ElementType::kInt32},
      {"torch LongStorage", ElementType::kInt64},
      {"torch HalfStorage", ElementType::kFloat16},
      {"torch BFloat16Storage", ElementType::kBfloat16},
      {"torch FloatStorage", ElementType::kFloat32},
      {"torch DoubleStorage", ElementType::kFloat64}};
  return storages;
}

// The members of the archive, read once each.
class TorchArchive {
 public:
  TorchArchive(const std::string& bytes, const std::string& path) : zip_(bytes, path), path_(path) {
    for (size_t i = 0; i < zip_.names().size(); ++i) index_[zip_.names()[i]] = i;
    for (const std::string& name : zip_.names()) {
      if (!name.ends_with("data.pkl")) continue;
      if (!pickle_.empty()) throw Error(path, ": two files data.pkl");
      pickle_ = name;
    }
    prefix_ = pickle_.substr(0, pickle_.size() - std::string("data.pkl").size());
    if (index_.count(prefix_ + "byteorder") != 0 && Read("byteorder") != "little") {
      throw Error(path, ": byteorder: expected little");
    }
  }

  const std::string& pickle_name() const { return pickle_; }
  std::string ReadPickle() const { return zip_.Read(index_.at(pickle_)); }
  // The bytes of storage `key`.
  const std::string& Storage(const std::string& key, const std::string& where) {
    const auto found = storages_.find(key);
    if (found != storages_.end()) return found->second;
    if (index_.count(prefix_ + "data/" + key) == 0) {
      throw Error(where, ": there is no file ", prefix_, "data/", key);
    }
    return storages_[key] = Read("data/" + key);
  }

 private:
  std::string Read(const std::string& name) const { return zip_.Read(index_.at(prefix_ + name)); }

  const ZipReader zip_;
  const std::string& path_;
  std::map<std::string, size_t> index_;
  std::string pickle_, prefix_;
  std::map<std::string, std::string> storages_;
};

// The numbers in a tuple.
ArrayShape NumbersOf(const PickleValue& tuple, const std::string& where, const char* what) {
  ArrayShape numbers;
  if (tuple.kind != Kind::kTuple) throw Error(where, ": ", what, " is ", Describe(tuple));
  for (const PickleValue* item : tuple.items) {
    if (item->kind != Kind::kInt || item->number < 0) {
      throw Error(where, ": ", what, " has an item that is no number from 0 on");
    }
    numbers.push_back(item->number);
  }
  return numbers;
}

// Arguments of _rebuild_tensor_v2: storage, offset, shape, stride, and more that nothing here
// needs. The storage is ("storage", type, key, device, number of values).
NamedArray TensorOf(const PickleValue& tensor, const std::string& name, const std::string& where,
                    TorchArchive* archive) {
  const auto& arguments = tensor.items;
  if (arguments.size() < 4 || arguments[0]->kind != Kind::kStorage ||
      arguments[1]->kind != Kind::kInt) {
    throw Error(where, ": damaged tensor");
  }
  const auto& storage = arguments[0]->items;
  if (storage.size() != 5 || storage[0]->text != "storage" || storage[1]->kind != Kind::kGlobal ||
      storage[2]->kind != Kind::kText) {
    throw Error(where, ": damaged storage");
  }
  const auto type = Storages().find(storage[1]->text);
  if (type == Storages().end()) {
    throw Error(where, ": numbers of type ", storage[1]->text, " are not known");
  }
  NamedArray array;
  array.name = name;
  array.type = type->second;
  array.shape = NumbersOf(*arguments[2], where, "its shape");
  const ArrayShape stride = NumbersOf(*arguments[3], where, "its stride");
  if (stride.size() != array.shape.size()) {
    throw Error(where, ": ", stride.size(), " strides of ", array.shape.size(), " axes");
  }
  const int64_t count = CountOf(array.shape, where);
  const std::string& bytes = archive->Storage(storage[2]->text, where);
  const size_t width = BytesOf(array.type);
  const auto stored = static_cast<int64_t>(bytes.size() / width);
  // A view that repeats values (expand) could be of any size.
  if (count > stored) {
    throw Error(where, ": ", count, " values of a storage of ", stored);
  }
  if (count == 0) return array;
  int64_t last = arguments[1]->number;
  for (size_t axis = 0; axis < stride.size() && last >= 0 && last < stored; ++axis) {
    const int64_t steps = array.shape[axis] - 1;
    last = stride[axis] > 0 && steps > stored / stride[axis] ? stored : last + steps * stride[axis];
  }
  if (last < 0 || arguments[1]->number < 0 || last >= stored) {
    throw Error(where, ": a view beyond the ", stored, " values of its storage");
  }
  array.bytes = RowMajor(bytes, width, arguments[1]->number, array.shape, stride, count);
  return array;
}

}  // namespace

std::vector<NamedArray> ParseTorch(const std::string& bytes, const std::string& path) {
  TorchArchive archive(bytes, path);
  const std::string where = path + ": " + archive.pickle_name();
  const std::string text = archive.ReadPickle();
  const Pickle pickle(text, where);
  if (pickle.value().kind != Kind::kDict) {
    throw Error(where, ": ", Describe(pickle.value()),
                ", expected a dict of tensors, as state_dict() is");
  }
  std::vector<NamedArray> arrays;
  for (const auto& [key, value] : pickle.value().pairs) {
    if (key->kind != Kind::kText)
      throw Error(where, ": a key is ", Describe(*key), ", expected a text");
    const std::string tensor = StrCat(where, ": '", key->text, "'");
    if (value->kind != Kind::kTensor) {
      throw Error(tensor, " is ", Describe(*value),
                  ", expected a tensor: save model.state_dict() alone");
    }
    arrays.push_back(TensorOf(*value, key->text, tensor, &archive));
  }
  return arrays;
}

}  // namespace millrace::inline model
