#include "data/annotated/label_map.h"

#include <set>

#include "base/error.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"

namespace millrace::inline data {

LabelMap ParseLabelMap(const std::string& text, const std::string& file, bool unique) {
  caffe::LabelMap items;
  ParseText(text, file, &items, nullptr);
  LabelMap map;
  std::set<int32_t> labels;
  for (const caffe::LabelMapItem& item : items.item()) {
    if (!map.emplace(item.name(), item.label()).second) {
      throw Error(file, ": gives the name '", item.name(), "' twice");
    }
    if (!labels.insert(item.label()).second && unique) {
      throw Error(file, ": gives the label ", item.label(), " twice");
    }
  }
  if (map.empty()) throw Error(file, ": holds no items, expected item { name: ... label: ... }");
  return map;
}

}  // namespace millrace::inline data
