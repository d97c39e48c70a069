#include "model/net_diagram.h"

#include <map>
#include <set>

#include "base/drawing_program.h"
#include "base/error.h"
#include "base/files/file.h"
#include "model/layer_text.h"
#include "nn/net_param.h"

namespace millrace::inline model {
namespace {

// The name of a file's format for dot -T; "" for dot's own text.
const std::map<std::string, std::string> kFormats = {
    {".svg", "svg"}, {".png", "png"}, {".pdf", "pdf"}, {".dot", ""}};

std::string EndingOf(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos || path.find('/', dot) != std::string::npos ? ""
                                                                              : path.substr(dot);
}

// In dot's labels of HTML form.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : OneLine(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

const char* ColorOf(const std::string& type) {
  static const std::map<std::string, const char*> colors = [] {
    std::map<std::string, const char*> all;
    const auto add = [&](const char* color, std::initializer_list<const char*> types) {
      for (const char* each : types) all[each] = color;
    };
    add("#CFE2F3", {"Convolution", "Deconvolution", "InnerProduct", "Embed", "LSTM", "RNN"});
    add("#FCE5CD", {"Pooling", "SPP", "ROIPooling", "PSROIPooling", "Upsample", "Interp"});
    add("#D9EAD3",
        {"ReLU", "ReLU6", "PReLU", "ELU", "SeLu", "Insanity", "Sigmoid", "TanH", "AbsVal", "Exp",
         "Log", "Power", "BNLL", "Swish", "Clip", "Threshold", "Dropout", "Softmax"});
    add("#E4DAF0", {"BatchNorm", "BN", "LRN", "MVN", "Scale", "Bias", "Normalize"});
    add("#E6E6E6",
        {"Data", "ImageData", "HDF5Data", "MemoryData", "WindowData", "DummyData", "Input",
         "AnnotatedData", "VideoData", "DenseImageData", "ImageSegData", "ImageLabelmapData"});
    return all;
  }();
  const auto found = colors.find(type);
  if (found != colors.end()) return found->second;
  return type.ends_with("Loss") || type.ends_with("Accuracy") ? "#F4CCCC" : "#FFF8DC";
}

// A box: a layer, and those that work in place on its top.
struct Box {
  std::vector<const PlacedLayer*> layers;
  std::vector<std::string> tops;
};

// A blob as one layer wrote it.
struct Version {
  size_t box, top;  // index in Box::tops
  bool is_label;    // a top of a data layer other than the first
  bool is_read = false;
};

struct Edge {
  size_t from, top, to;
};

// A label that a far box reads: drawn beside that box, not as an arrow through the whole picture.
struct Stub {
  std::string blob;
  size_t to;
};

// Where arrows leave boxes, and the cells of blobs, and where they enter boxes.
struct Sides {
  const char *tail, *cell_tail, *head;
};
Sides SidesOf(const std::string& rankdir) {
  if (rankdir == "LR") return {":e", ":e", ":w"};
  if (rankdir == "RL") return {":w", ":w", ":e"};
  // The cells are at the bottom of the box all the same.
  if (rankdir == "BT") return {":n", "", ":s"};
  return {":s", ":s", ":n"};
}

// Text in lines of at most about 40 characters, broken at commas.
std::string Wrapped(const std::string& text) {
  std::string wrapped;
  size_t line = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t comma = text.find(", ", begin);
    const size_t end = comma == std::string::npos ? text.size() : comma + 2;
    if (line > 0 && line + end - begin > 40) {
      wrapped += "<BR/>";
      line = 0;
    }
    wrapped += Escaped(text.substr(begin, end - begin));
    line += end - begin;
    begin = end;
  }
  return wrapped;
}

class Diagram {
 public:
  Diagram(const std::vector<PlacedLayer>& layers, const BuiltNet* net, DiagramDirection direction)
      : net_(net),
        across_(direction == DiagramDirection::kRight || direction == DiagramDirection::kLeft) {
    for (const PlacedLayer& layer : layers) Add(layer);
  }

  std::string Text(const std::string& name, const char* rankdir) const {
    std::string text = StrCat(
        "digraph net {\n  rankdir=", rankdir, ";\n  fontname=\"Helvetica,Arial,sans-serif\";\n",
        "  labelloc=t; fontsize=18; nodesep=0.25; ranksep=0.35;\n  label=<", Title(name), ">;\n",
        "  node [shape=plain, fontname=\"Helvetica,Arial,sans-serif\", fontsize=12];\n",
        "  edge [color=\"#555555\", arrowsize=0.7];\n");
    for (size_t i = 0; i < boxes_.size(); ++i) {
      text += StrCat("  n", i, " [label=<", BoxText(boxes_[i]), ">];\n");
    }
    const Sides sides = SidesOf(rankdir);
    for (const Edge& edge : edges_) {
      // From the middle of a box with one blob, so that chains of boxes are straight.
      const bool is_only = boxes_[edge.from].tops.size() == 1;
      const std::string tail = is_only ? sides.tail : StrCat(":t", edge.top, sides.cell_tail);
      text += StrCat("  n", edge.from, tail, " -> n", edge.to, sides.head, ";\n");
    }
    for (size_t i = 0; i < stubs_.size(); ++i) {
      text += StrCat("  s", i, " [shape=box, style=\"rounded,dashed\", fontsize=10, height=0, ",
                     "margin=\"0.08,0.03\", label=<<I>", Escaped(stubs_[i].blob), "</I>>];\n",
                     "  s", i, " -> n", stubs_[i].to, sides.head, ";\n");
    }
    return text + "}\n";
  }

 private:
  void Add(const PlacedLayer& layer) {
    const caffe::LayerParameter& param = layer.param;
    if (Fold(layer)) return;
    const size_t box = boxes_.size();
    boxes_.push_back({{&layer}, {param.top().begin(), param.top().end()}});
    std::set<std::pair<size_t, size_t>> drawn;  // a layer may read a blob twice
    for (const std::string& bottom : param.bottom()) {
      const auto found = current_.find(bottom);
      if (found == current_.end()) continue;  // the net, if it is built, refuses it
      Version& version = found->second;
      version.is_read = true;
      if (!drawn.emplace(version.box, version.top).second) continue;
      if (version.is_label) {
        stubs_.push_back({bottom, box});
      } else {
        edges_.push_back({version.box, version.top, box});
      }
    }
    for (int i = 0; i < param.top_size(); ++i) {
      const bool is_label = param.bottom_size() == 0 && i > 0;
      current_[param.top(i)] = {box, static_cast<size_t>(i), is_label};
    }
  }

  bool Fold(const PlacedLayer& layer) {
    const caffe::LayerParameter& param = layer.param;
    if (param.bottom_size() != 1 || param.top_size() != 1 || param.bottom(0) != param.top(0)) {
      return false;
    }
    const auto found = current_.find(param.bottom(0));
    if (found == current_.end() || found->second.is_read) return false;
    Box& box = boxes_[found->second.box];
    if (box.tops.size() != 1) return false;  // it would seem to work on all of them
    box.layers.push_back(&layer);
    return true;
  }

  std::string Title(const std::string& name) const {
    std::string title = "<B>" + Escaped(name.empty() ? "net" : name) + "</B>";
    if (net_ == nullptr) return title;
    int64_t weights = 0;
    for (const NetParam& param : net_->params()) weights += param.owner->blob->count();
    return StrCat(title, "<BR/><FONT POINT-SIZE=\"12\">", GroupedDigits(net_->layout().size()),
                  " weights</FONT>");
  }

  std::string WeightsText(const PlacedLayer& layer) const {
    Layer* const built = net_ == nullptr ? nullptr : net_->FindLayer(layer.param.name());
    if (built == nullptr || built->params().empty()) return "";
    int64_t count = 0;
    for (const Param& param : built->params()) count += param.blob->count();
    std::string text = GroupedDigits(count) + " weights";
    std::string names;
    for (const caffe::ParamSpec& spec : layer.param.param()) {
      if (!spec.name().empty()) names += (names.empty() ? "" : ", ") + spec.name();
    }
    return names.empty() ? text : text + " shared as " + names;
  }

  // One cell. The first layer of a box has several lines.
  std::string LayerText(const PlacedLayer& layer, bool is_first) const {
    const caffe::LayerParameter& param = layer.param;
    const std::string details = LayerDetails(param), weights = WeightsText(layer);
    const char* separator = is_first ? "<BR/>" : ", ";
    std::string text = StrCat("<B>", Escaped(layer.name_in_file), "</B>", is_first ? "<BR/>" : "  ",
                              Escaped(param.type()));
    for (const std::string& part : {details, weights}) {
      if (!part.empty()) text += separator + (is_first ? Wrapped(part) : Escaped(part));
    }
    return text;
  }

  std::string TopText(const Box& box, size_t index) const {
    const std::string& top = box.tops[index];
    const Blob* const blob = net_ == nullptr ? nullptr : net_->FindBlob(top);
    // The name says nothing where it is the layer's own.
    const bool is_named = box.tops.size() > 1 || top != box.layers[0]->name_in_file;
    std::string text = is_named || blob == nullptr ? "<I>" + Escaped(top) + "</I>" : "";
    if (blob != nullptr) text += (text.empty() ? "" : "  ") + DimsText(blob->shape());
    return StrCat("<TD PORT=\"t", index, "\"><FONT POINT-SIZE=\"10\" COLOR=\"#333333\">", text,
                  "</FONT></TD>");
  }

  std::string BoxText(const Box& box) const {
    const size_t columns = across_ || box.tops.empty() ? 1 : box.tops.size();
    std::string text =
        "<TABLE BORDER=\"0\" CELLBORDER=\"1\" CELLSPACING=\"0\" CELLPADDING=\"4\" "
        "COLOR=\"#777777\">";
    for (size_t i = 0; i < box.layers.size(); ++i) {
      text += StrCat("<TR><TD COLSPAN=\"", columns, "\" BGCOLOR=\"",
                     ColorOf(box.layers[i]->param.type()), "\">", LayerText(*box.layers[i], i == 0),
                     "</TD></TR>");
    }
    std::string tops;
    for (size_t i = 0; i < box.tops.size(); ++i) {
      tops += across_ && i > 0 ? "</TR><TR>" : "";
      tops += TopText(box, i);
    }
    if (!tops.empty()) text += "<TR>" + tops + "</TR>";
    return text + "</TABLE>";
  }

  const BuiltNet* const net_;
  const bool across_;  // the blobs of a box are below each other
  std::vector<Box> boxes_;
  std::vector<Edge> edges_;
  std::vector<Stub> stubs_;
  std::map<std::string, Version> current_;
};

const char* RankdirOf(DiagramDirection direction) {
  switch (direction) {
    case DiagramDirection::kRight:
      return "LR";
    case DiagramDirection::kUp:
      return "BT";
    case DiagramDirection::kLeft:
      return "RL";
    case DiagramDirection::kDown:
      break;
  }
  return "TB";
}

}  // namespace

DiagramDirection ParseDiagramDirection(const std::string& rankdir) {
  for (const DiagramDirection each : {DiagramDirection::kDown, DiagramDirection::kRight,
                                      DiagramDirection::kUp, DiagramDirection::kLeft}) {
    if (rankdir == RankdirOf(each)) return each;
  }
  throw Error("--rankdir=", rankdir, ": expected TB, LR, BT or RL");
}

std::string NetDiagram(const caffe::NetParameter& param, const SourceMap& source,
                       const caffe::NetState& state, const BuiltNet* net,
                       DiagramDirection direction) {
  std::vector<PlacedLayer> layers = SelectLayers(param, state, source);
  GiveUniqueNames(&layers);
  return Diagram(layers, net, direction).Text(param.name(), RankdirOf(direction));
}

void CheckDiagramPath(const std::string& path) {
  if (kFormats.count(EndingOf(path)) == 0) {
    throw Error(path, ": expected a name that ends in .svg, .png, .pdf or .dot");
  }
}

void DrawNetDiagram(const std::string& dot, const std::string& path) {
  CheckDiagramPath(path);
  const std::string format = kFormats.at(EndingOf(path));
  if (!format.empty()) {
    return Draw({"dot", {"-T" + format}, "which draws nets", "graphviz"}, dot, path);
  }
  AtomicFile file(path);
  file.Write(dot);
  file.Commit();
}

}  // namespace millrace::inline model
