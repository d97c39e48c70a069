#include "data/common_order.h"

#include <glog/logging.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace millrace::inline data {
namespace {

bool IsGrouped(const BatchStreamOptions& options) { return options.groups.size() > 1; }

// Whether both read the same list of files, as two layers do that compare images with each other:
// in one order, each would be compared with itself.
bool ReadSameList(const LayerStream& a, const LayerStream& b) {
  return a.shuffles_as_caffe && b.shuffles_as_caffe && a.source_field == b.source_field &&
         a.options.sources[0]->path() == b.options.sources[0]->path();
}

// Why `a` cannot have one shuffled order with `b`; "" if it can. One of them is shuffled.
std::string WhyNotInStep(const BatchStreamOptions& a, const BatchStreamOptions& b) {
  const uint64_t records = TotalRecords(a), others = TotalRecords(b);
  if (a.shuffle != b.shuffle) {
    return StrCat(a.shuffle ? "is shuffled, but layer '" : "is not shuffled, but layer '", b.layer,
                  a.shuffle ? "' is not" : "' is");
  }
  if (records != others) {
    return StrCat("is shuffled and has ", records, " records, but layer '", b.layer, "' has ",
                  others);
  }
  if (IsGrouped(a) && IsGrouped(b) && a.groups != b.groups) {
    return StrCat("is shuffled file by file, but the files of layer '", b.layer,
                  "' have other numbers of records");
  }
  return "";
}

}  // namespace

uint64_t TotalRecords(const BatchStreamOptions& options) {
  uint64_t total = 0;
  for (const auto& source : options.sources) total += source->size();
  return total;
}

void AlignOrder(const std::vector<OpenLayer*>& others, LayerStream* wanted) {
  BatchStreamOptions& options = wanted->options;
  // Records that are drawn at random belong to no others, and a single record to all of them.
  const auto has_no_order = [](const BatchStreamOptions& each) {
    return !each.draws.empty() || TotalRecords(each) == 1;
  };
  if (!options.draws.empty()) return;
  // Whether a layer of the same list has this order, or is in step with one that has it.
  const auto is_taken = [&](uint64_t order) {
    return std::any_of(others.begin(), others.end(), [&](const OpenLayer* other) {
      return other->stream->options().order == order && ReadSameList(*wanted, other->layer);
    });
  };
  std::vector<OpenLayer*> in_step;  // shuffled as `wanted`
  uint64_t items = TotalRecords(options);
  std::vector<OpenLayer*> in_order;  // not shuffled, as `wanted`
  for (OpenLayer* other : others) {
    const BatchStreamOptions& others_options = other->stream->options();
    if (!options.shuffle && !others_options.shuffle && others_options.draws.empty()) {
      in_order.push_back(other);
      items = std::max({items, TotalRecords(others_options), others_options.items});
      if (options.rand_skip == others_options.rand_skip) options.order = others_options.order;
      continue;
    }
    if (has_no_order(options) || has_no_order(others_options)) continue;
    const std::string why = WhyNotInStep(options, others_options);
    if (why.empty() && !is_taken(others_options.order)) {
      in_step.push_back(other);
      continue;
    }
    const bool is_own = (options.shuffle && !wanted->shuffles_as_caffe) ||
                        (others_options.shuffle && !other->layer.shuffles_as_caffe);
    if (is_own) {
      throw FieldError(
          wanted->source_field, why,
          ": records that belong together would not stay together; expected shuffle in "
          "both layers or in neither, and equal numbers of records");
    }
    LOG(WARNING) << "layers '" << others_options.layer << "' and '" << options.layer
                 << "' are shuffled independently of each other, as in Caffe: their records do not "
                 << "stay together";
  }
  if (!in_step.empty()) {
    options.order = in_step[0]->stream->options().order;
    for (const OpenLayer* other : in_step) {
      if (IsGrouped(other->stream->options())) options.groups = other->stream->options().groups;
    }
    for (const OpenLayer* other : in_step) {
      if (other->stream->options().groups != options.groups) {
        other->stream->SetOrder(options.groups, other->stream->options().items);
      }
    }
  }
  if (options.shard_count == 1 || in_order.empty()) return;
  const auto items_of = [&](const BatchStreamOptions& each) {
    return TotalRecords(each) == items ? 0 : items;
  };
  options.items = items_of(options);
  for (const OpenLayer* other : in_order) {
    const BatchStreamOptions& others_options = other->stream->options();
    if (others_options.items != items_of(others_options)) {
      other->stream->SetOrder(others_options.groups, items_of(others_options));
    }
  }
}

}  // namespace millrace::inline data
