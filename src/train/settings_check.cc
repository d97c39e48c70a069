#include "train/settings_check.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/fnv1a.h"
#include "base/text/names.h"
#include "base/text/utf8.h"

namespace millrace::inline train {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

// Maximum length of a value in a line of the log, and in a message. A value that is longer than the
// latter is compared by its digest; the largest of these lengths with which the message fits is
// used.
constexpr size_t kShownBytes = 64, kTextBytes[] = {64, 32, 16, 0};

// Fields of the solver and of the layers that nodes may set as they like.
const std::set<std::string_view>& OwnFields() {
  static const std::set<std::string_view> names = {
      // Solver.
      "net", "net_param", "train_net", "test_net", "train_net_param", "test_net_param",
      "train_state", "test_state", "test_iter", "test_interval", "test_compute_loss",
      "test_initialization", "display", "average_loss", "snapshot", "snapshot_prefix",
      "snapshot_diff", "snapshot_format", "solver_mode", "device_id", "random_seed", "solver_type",
      "debug_info", "snapshot_after_train", "layer_wise_reduce", "weights", "eval_type",
      "ap_version", "show_per_class_result",
      // Layers.
      "source", "mean_file", "root_folder", "backend", "rand_skip", "prefetch", "shuffle", "engine",
      "file_name", "label_map_file", "name_size_file", "save_file", "video_file", "include",
      "exclude", "phase", "blobs"};
  return names;
}

bool IsHarmless(const FieldDescriptor& field) {
  static const std::set<std::string_view> names = {"batch_size", "iter_size", "strategy",
                                                   "stop_condition", "sampler"};
  return names.contains(field.name());
}

std::string TextOf(const Message& message, const FieldDescriptor& field, int index) {
  std::string text;
  TextFormat::PrintFieldValueToString(message, &field, index, &text);
  return text;
}

std::string DefaultOf(const FieldDescriptor& field) {
  if (field.is_repeated() || field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return "";
  const Message* const prototype =
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(field.containing_type());
  return prototype != nullptr ? TextOf(*prototype, field, -1) : "";
}

// The entries of a map have no order of their own.
std::string MapText(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<std::string> entries;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    entries.push_back(reflection.GetRepeatedMessage(message, &field, i).ShortDebugString());
  }
  std::sort(entries.begin(), entries.end());
  std::string text;
  for (const std::string& entry : entries) text += (text.empty() ? "" : ",") + entry;
  return text;
}

void Add(const std::string& text, const SettingField& at, Settings* settings) {
  std::string& value = (*settings)[at];
  value += (value.empty() ? "" : ",") + text;
}

void AddMessage(const Message& message, SettingField* at, Settings* settings) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (OwnFields().contains(field->name())) continue;
    at->numbers.push_back(static_cast<uint32_t>(field->number()));
    if (field->is_map()) {
      Add(MapText(message, *field), *at, settings);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        AddMessage(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                        : reflection.GetMessage(message, field),
                   at, settings);
      }
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i)
        Add(TextOf(message, *field, i), *at, settings);
    } else if (std::string text = TextOf(message, *field, -1); text != DefaultOf(*field)) {
      Add(text, *at, settings);
    }
    at->numbers.pop_back();
  }
}

uint32_t Digest(std::string_view text) { return Folded(Fnv1a(text)); }

// The fields that `numbers` lead to; empty if this version has none there.
std::vector<const FieldDescriptor*> Resolve(const SettingField& at) {
  const Descriptor* in =
      at.net ? caffe::LayerParameter::descriptor() : caffe::SolverParameter::descriptor();
  std::vector<const FieldDescriptor*> fields;
  for (const uint32_t number : at.numbers) {
    const FieldDescriptor* const field = in != nullptr && number <= INT32_MAX
                                             ? in->FindFieldByNumber(static_cast<int>(number))
                                             : nullptr;
    if (field == nullptr) return {};
    fields.push_back(field);
    in = field->message_type();
  }
  return fields;
}

std::string NameOf(const std::vector<const FieldDescriptor*>& fields) {
  std::string name;
  for (const FieldDescriptor* field : fields) name += (name.empty() ? "" : ".") + field->name();
  return name;
}

std::string Shown(std::string_view text, bool cut) {
  const std::string_view shown = CutText(text, kShownBytes);
  if (shown.empty()) return cut ? "other values" : "none";
  return StrCat(shown, cut || shown.size() < text.size() ? "..." : "");
}

}  // namespace

Settings SettingsOf(const caffe::SolverParameter& solver, const std::vector<PlacedLayer>& layers) {
  Settings settings;
  SettingField at;
  AddMessage(solver, &at, &settings);
  at.net = true;
  for (const PlacedLayer& layer : layers) AddMessage(layer.param, &at, &settings);
  return settings;
}

NodeSettings EncodeSettings(const Settings& settings) {
  NodeSettings message;
  for (const size_t most : kTextBytes) {
    message.Clear();
    for (const auto& [at, value] : settings) {
      NodeSetting& setting = *message.add_setting();
      setting.mutable_field()->Assign(at.numbers.begin(), at.numbers.end());
      if (at.net) setting.set_net(true);
      const std::string_view text = CutText(value, most);
      if (!text.empty()) setting.set_text(std::string(text));
      if (text.size() < value.size()) setting.set_digest(Digest(value));
    }
    if (message.ByteSizeLong() <= kMaxGossipBytes) return message;
  }
  message.set_cut(true);
  while (message.ByteSizeLong() > kMaxGossipBytes) message.mutable_setting()->RemoveLast();
  return message;
}

std::vector<SettingDifference> CompareSettings(const Settings& own, const NodeSettings& theirs) {
  std::map<SettingField, const NodeSetting*> given;
  for (const NodeSetting& setting : theirs.setting()) {
    given[{setting.net(), {setting.field().begin(), setting.field().end()}}] = &setting;
  }
  std::set<SettingField> all;
  for (const auto& [at, value] : own) all.insert(at);
  for (const auto& [at, setting] : given) all.insert(at);
  std::vector<SettingDifference> differences;
  for (const SettingField& at : all) {
    const std::vector<const FieldDescriptor*> fields = Resolve(at);
    const auto their = given.find(at);
    if (fields.empty() || (their == given.end() && theirs.cut())) continue;
    const auto mine = own.find(at);
    const std::string here = mine != own.end() ? mine->second : DefaultOf(*fields.back());
    const bool cut = their != given.end() && their->second->has_digest();
    const std::string there =
        their != given.end() ? their->second->text() : DefaultOf(*fields.back());
    if (cut ? their->second->digest() == Digest(here) : there == here) continue;
    differences.push_back({NameOf(fields), Shown(there, cut), Shown(here, false),
                           std::any_of(fields.begin(), fields.end(),
                                       [](const auto* each) { return IsHarmless(*each); })});
  }
  return differences;
}

SettingsCheck::SettingsCheck(ClusterPeers* peers, std::vector<std::string> names, Settings own)
    : peers_(*peers), names_(std::move(names)), own_(std::move(own)) {
  const std::string bytes = EncodeSettings(own_).SerializeAsString();
  peers_.Publish(GossipKey::kSettings, std::as_bytes(std::span(bytes)));
}

std::vector<SettingsCheck::Line> SettingsCheck::TakeNew() {
  std::vector<Line> lines;
  for (const GossipMessage& gossip : peers_.Read(GossipKey::kSettings)) {
    if (gossip.node == peers_.self()) continue;
    const auto [known, is_new] = compared_.try_emplace(gossip.node, gossip.incarnation);
    if (!is_new && std::exchange(known->second, gossip.incarnation) == gossip.incarnation) continue;
    NodeSettings theirs;
    if (!theirs.ParseFromArray(gossip.bytes.data(), static_cast<int>(gossip.bytes.size())))
      continue;
    std::vector<SettingDifference> all = CompareSettings(own_, theirs), harmless;
    std::copy_if(all.begin(), all.end(), std::back_inserter(harmless),
                 [](const SettingDifference& each) { return each.harmless; });
    std::erase_if(all, [](const SettingDifference& each) { return each.harmless; });
    const std::string node = NameAt(names_, gossip.node, "#");
    AddLine(true, node, all, &lines);
    AddLine(false, node, harmless, &lines);
  }
  return lines;
}

void SettingsCheck::AddLine(bool warning, const std::string& node,
                            const std::vector<SettingDifference>& differences,
                            std::vector<Line>* lines) {
  if (differences.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(differences.size(), kMaxFields); ++i) {
    const SettingDifference& each = differences[i];
    text += StrCat(i > 0 ? "; another " : "another ", each.field, ": ", each.theirs, ", here ",
                   each.here);
  }
  if (differences.size() > kMaxFields)
    text += StrCat("; and ", differences.size() - kMaxFields, " other differences");
  if (warning) text += "; expected equal solvers and nets on all nodes";
  if (!reported_.insert(text).second) return;
  lines->push_back({warning, OneLine(StrCat("node ", node, " has ", text))});
}

}  // namespace millrace::inline train
