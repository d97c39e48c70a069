#include "exchange/kernels/codec_config.h"

#include <algorithm>
#include <iterator>

#include "base/text/parse.h"

namespace millrace::inline exchange {
namespace {

struct NamedCodec {
  const char* name;
  Codec codec;
  SparseChoice choice;
};

constexpr NamedCodec kCodecs[] = {{"float32", Codec::kFloat32, SparseChoice::kThreshold},
                                  {"bfloat16", Codec::kBfloat16, SparseChoice::kThreshold},
                                  {"int8", Codec::kInt8, SparseChoice::kThreshold},
                                  {"int4", Codec::kInt4, SparseChoice::kThreshold},
                                  {"sparse", Codec::kSparse, SparseChoice::kThreshold},
                                  {"topk", Codec::kSparse, SparseChoice::kTop},
                                  {"random", Codec::kSparse, SparseChoice::kRandom}};

}  // namespace

std::optional<CodecConfig> CodecNamed(const std::string& name) {
  const auto* const found = std::find_if(std::begin(kCodecs), std::end(kCodecs),
                                         [&](const NamedCodec& each) { return each.name == name; });
  if (found == std::end(kCodecs)) return std::nullopt;
  CodecConfig codec;
  codec.codec = found->codec;
  codec.choice = found->choice;
  return codec;
}

std::optional<Codec> PositionCodecNamed(const std::string& name) {
  const std::optional<CodecConfig> codec = CodecNamed(name);
  if (!codec) return std::nullopt;
  if (codec->codec == Codec::kSparse && codec->choice != SparseChoice::kTop) return std::nullopt;
  return codec->codec;
}

std::string PositionCodecName(Codec codec) {
  return CodecName({.codec = codec, .choice = SparseChoice::kTop});
}

std::string CodecName(const CodecConfig& codec) {
  const bool sparse = codec.codec == Codec::kSparse;
  for (const NamedCodec& each : kCodecs) {
    if (each.codec == codec.codec && (!sparse || each.choice == codec.choice)) return each.name;
  }
  return "";
}

bool IsThreshold(double threshold) { return threshold > 0 && threshold < 1e30; }

bool IsShare(double share) { return share > 0 && share <= 1; }

std::optional<CodecConfig> ParseCodec(const std::string& text) {
  const size_t colon = text.find(':');
  std::optional<CodecConfig> codec = CodecNamed(text.substr(0, colon));
  if (!codec) return std::nullopt;
  const bool needs = HasThreshold(*codec) || HasShare(*codec);
  if (needs != (colon != std::string::npos)) return std::nullopt;
  if (!needs) return codec;
  const std::optional<double> value = ParseNumber<double>(text.substr(colon + 1));
  if (!value || !(HasShare(*codec) ? IsShare(*value) : IsThreshold(*value))) return std::nullopt;
  if (HasShare(*codec)) {
    codec->share = *value;
  } else {
    codec->threshold = static_cast<float>(*value);
    if (!(codec->threshold > 0)) return std::nullopt;
  }
  return codec;
}

}  // namespace millrace::inline exchange
