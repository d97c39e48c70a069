// HDF5 files of any structure: data, models and states are read, or rejected with one line that
// names the file. The library itself may crash on damaged structures, so an input says what the
// library writes: datasets of any types, shapes and layouts, groups, and links, also to groups
// around them. Values are damaged afterwards, and files truncated.
#include <hdf5.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/file.h"
#include "data/hdf5/hdf5_source.h"
#include "nn/net.h"
#include "proto/parse.h"
#include "solver/snapshot.h"
#include "solver/update_rule.h"
#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

const char* const kNames[] = {"data",
                              "label",
                              "other",
                              "iter",
                              "learned_net",
                              "current_step",
                              "data/ip/0",
                              "data/ip/1",
                              "data/ip",
                              "data/a/b/0",
                              "history/0",
                              "history/1",
                              "history",
                              "diff/ip/0",
                              "millrace/updates",
                              "millrace/state",
                              "millrace/history/1/0",
                              "millrace/history/1",
                              "history/x",
                              "data/ip/7",
                              "millrace/run",
                              "millrace/array/0"};
constexpr int kRun = 20;  // index of millrace/run
constexpr hsize_t kHuge = hsize_t{1} << 31;
const std::vector<hsize_t> kShapes[] = {{},
                                        {1},
                                        {3},
                                        {3, 4},
                                        {3, 2, 2},
                                        {0},
                                        {3, 0},
                                        {1, 1},
                                        {4, 3},
                                        {3, 1, 2, 2},
                                        {3, 5},
                                        {12},
                                        {2, 3},
                                        {kHuge, kHuge},
                                        {kHuge, kHuge / 2},
                                        {3, 4},
                                        {kHuge * kHuge},
                                        {3}};

enum Kind { kDataset, kUnwritten, kChunked, kCompressed, kGroup, kSoftLink, kHardLink, kKinds };
enum Type { kFloat, kDouble, kHalfBytes, kInt, kUnsigned8, kText, kLongText, kCompound, kTypes };

hid_t MakeType(int type) {
  switch (type) {
    case kFloat:
      return H5Tcopy(H5T_NATIVE_FLOAT);
    case kDouble:
      return H5Tcopy(H5T_IEEE_F64BE);
    case kHalfBytes:
      return H5Tcopy(H5T_STD_I16BE);
    case kInt:
      return H5Tcopy(H5T_NATIVE_INT);
    case kUnsigned8:
      return H5Tcopy(H5T_NATIVE_UCHAR);
    case kCompound: {
      const hid_t pair = H5Tcreate(H5T_COMPOUND, 8);
      H5Tinsert(pair, "a", 0, H5T_NATIVE_FLOAT);
      H5Tinsert(pair, "b", 4, H5T_NATIVE_INT);
      return pair;
    }
    default: {
      const hid_t text = H5Tcopy(H5T_C_S1);
      H5Tset_size(text, type == kText ? 16 : H5T_VARIABLE);
      return text;
    }
  }
}

// What the entries of an input are made from: four bytes each.
struct Entry {
  int name, kind, type, shape;
};

void AddDataset(hid_t file, const Entry& entry, hid_t links) {
  const std::vector<hsize_t>& dims = kShapes[entry.shape];
  hsize_t count = 1;
  for (const hsize_t dim : dims) count *= std::min<hsize_t>(dim, 4096);
  const bool is_small = count < 4096 && entry.type != kLongText;
  const hid_t type = MakeType(entry.type);
  const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
  if ((!is_small || entry.kind == kChunked || entry.kind == kCompressed) && !dims.empty()) {
    const std::vector<hsize_t> chunk(dims.size(), 2);
    H5Pset_chunk(plan, static_cast<int>(dims.size()), chunk.data());
    if (entry.kind == kCompressed) H5Pset_deflate(plan, 1);
  }
  const hid_t set = H5Dcreate2(file, kNames[entry.name], type, space, links, plan, H5P_DEFAULT);
  if (is_small && entry.kind != kUnwritten) {
    std::string values(count * 16, '2');
    // The text form of a state with one array.
    if (entry.name == kRun && count > 0) values.replace(0, 8, std::string("array{}", 8));
    H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  H5Dclose(set);
  H5Pclose(plan);
  H5Sclose(space);
  H5Tclose(type);
}

void Add(hid_t file, const Entry& entry, hid_t links) {
  const char* const name = kNames[entry.name];
  const char* const target =
      entry.type == 0 ? "/" : kNames[(entry.type * 8 + entry.shape) % std::size(kNames)];
  switch (entry.kind) {
    case kGroup:
      H5Gclose(H5Gcreate2(file, name, links, H5P_DEFAULT, H5P_DEFAULT));
      return;
    case kSoftLink:
      H5Lcreate_soft(target, file, name, links, H5P_DEFAULT);
      return;
    case kHardLink:
      H5Lcreate_hard(file, target, file, name, links, H5P_DEFAULT);
      return;
    default:
      AddDataset(file, entry, links);
  }
}

class Input {
 public:
  explicit Input(const std::string& bytes) : bytes_(bytes) {}
  bool done() const { return at_ >= bytes_.size(); }
  int Below(size_t limit) {
    const size_t byte = done() ? 0 : static_cast<unsigned char>(bytes_[at_++]);
    return static_cast<int>(byte % limit);
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

constexpr int kWhole = 64;  // 64ths of a file

// The file that an input describes: how much of it there is, and entries.
std::string Write(const MemoryFolder& folder, const std::string& input_bytes) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  Input input(input_bytes);
  const int part = std::min(kWhole, 1 + input.Below(256));
  const std::string path = folder / "written.h5";
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  for (int entries = 0; !input.done() && entries < 32; ++entries) {
    Entry entry;
    entry.name = input.Below(std::size(kNames));
    entry.kind = input.Below(kKinds);
    entry.type = input.Below(kTypes);
    entry.shape = input.Below(std::size(kShapes));
    Add(file, entry, links);
  }
  H5Fclose(file);
  H5Pclose(links);
  std::string bytes = ReadFile(path);
  bytes.resize(bytes.size() * part / kWhole);
  return bytes;
}

// Whether `body` succeeds, or throws an Error that begins with one of `paths`.
template <typename Body>
bool SucceedsOrNames(const std::vector<std::string>& paths, Body body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    return IsOneLineNaming(error, paths);
  }
}

// A net whose layer "ip" has the blobs of the seeds.
class SmallNet {
 public:
  SmallNet() {
    caffe::NetParameter param;
    ParseText(
        "layer { name: 'data' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 } } }\n"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'\n"
        "  inner_product_param { num_output: 3 } }\n",
        "net", &param, nullptr);
    net_ = std::make_unique<BuiltNet>(param, SourceMap(), BuiltNetOptions());
    weights_.resize(net_->layout().size());
    net_->BindWeights(weights_.data());
  }
  BuiltNet* get() { return net_.get(); }

 private:
  std::vector<float> weights_;
  std::unique_ptr<BuiltNet> net_;
};

// An input from the entries' numbers.
std::string InputOf(const std::vector<Entry>& entries) {
  std::string bytes(1, '\xff');
  for (const Entry& entry : entries) {
    for (const int part : {entry.name, entry.kind, entry.type, entry.shape}) {
      bytes += static_cast<char>(part);
    }
  }
  return bytes;
}

}  // namespace

std::vector<std::string> Corpus() {
  return {
      InputOf({{0, kDataset, kFloat, 4}, {1, kDataset, kInt, 2}, {2, kChunked, kDouble, 3}}),
      InputOf({{0, kCompressed, kDouble, 3}, {1, kUnwritten, kUnsigned8, 2}}),
      InputOf({{0, kChunked, kFloat, 13}, {1, kChunked, kFloat, 14}}),
      InputOf({{6, kDataset, kFloat, 3}, {7, kDataset, kFloat, 2}, {9, kDataset, kDouble, 2}}),
      InputOf({{6, kDataset, kFloat, 3}, {9, kSoftLink, 0, 0}, {18, kHardLink, 0, 0}}),
      InputOf({{3, kDataset, kInt, 1},
               {4, kDataset, kText, 0},
               {5, kDataset, kInt, 1},
               {10, kDataset, kFloat, 3},
               {11, kDataset, kFloat, 2},
               {14, kDataset, kInt, 2},
               {15, kDataset, kText, 0},
               {16, kDataset, kFloat, 3}}),
      InputOf({{3, kDataset, kInt, 1},
               {4, kDataset, kText, 0},
               {10, kDataset, kFloat, 3},
               {kRun, kDataset, kText, 0},
               {kRun + 1, kDataset, kFloat, 11}}),
  };
}

bool Target(const std::string& input) {
  static const MemoryFolder folder;
  const std::string list = folder / "list.txt", path = folder / "file.h5";
  folder.Write("list.txt", "file.h5");
  folder.Write("file.h5", Write(folder, input));
  const bool as_data = SucceedsOrNames({list, path}, [&] {
    Hdf5Source source(list, {"data", "label"});
    const auto reader = source.MakeReader(false);
    reader->At(0);
  });
  const bool as_state = SucceedsOrNames({path}, [&] {
    const ResumePoint point = LoadResumePoint(path);
    for (int solver = 0; solver < point.solvers() && solver < 4; ++solver) {
      const auto rule = UpdateRuleRegistry::Get().Create(
          {}, {{"ip/0", {3, 4}, 0, 12, 1, 1}, {"ip/1", {3}, 16, 3, 1, 1}}, 32);
      RestoreHistory(point, solver, rule.get());
    }
  });
  static SmallNet net;
  const bool as_model = SucceedsOrNames({path}, [&] { LoadWeights(path, net.get()); });
  return as_data && as_state && as_model;
}

}  // namespace millrace::fuzz
