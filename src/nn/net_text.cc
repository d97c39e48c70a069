#include "nn/net_text.h"

#include "base/files/file.h"
#include "millrace/layer.h"
#include "nn/net_param.h"
#include "proto/parse.h"
#include "proto/upgrade.h"

namespace millrace::inline nn {
namespace {

// "; also " and a complaint for each layer whose type this build lacks.
std::string MissingTypes(caffe::NetParameter net, const SourceMap& source) {
  NetUpgrade upgrade;
  try {
    upgrade = UpgradeNet(source, &net);
  } catch (const Error&) {
    return "";
  }
  std::string missing;
  for (int i = 0; i < net.layer_size(); ++i) {
    const caffe::LayerParameter& layer = net.layer(i);
    if (layer.type().empty()) continue;
    const std::string reason = LayerRegistry::Get().WhyNot(layer.type(), HostDevice());
    if (reason.empty()) continue;
    missing += StrCat("; also ", PlaceOf(source, {layer, upgrade.layer_paths[i]}, "type"), reason);
  }
  return missing;
}

}  // namespace

void ParseNet(const std::string& text, const std::string& name, caffe::NetParameter* net,
              SourceMap* source) {
  SourceMap own;
  SourceMap* const map = source != nullptr ? source : &own;
  try {
    ParseText(text, name, net, map);
  } catch (const UnknownFields& error) {
    throw UnknownFields(error.what(), MissingTypes(*net, *map));
  }
}

void LoadNet(const std::string& path, caffe::NetParameter* net, SourceMap* source) {
  ParseNet(ReadFile(path), path, net, source);
}

}  // namespace millrace::inline nn
