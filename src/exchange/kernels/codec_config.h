// Names of codecs and their parameters, as topology files and command lines have them.
#ifndef MILLRACE_EXCHANGE_KERNELS_CODEC_CONFIG_H_
#define MILLRACE_EXCHANGE_KERNELS_CODEC_CONFIG_H_

#include <optional>
#include <string>

#include "exchange/kernels/chunk_op.h"

namespace millrace::inline exchange {

// All names, for errors.
inline constexpr const char* kCodecNames = "float32, bfloat16, int8, int4, sparse, topk, random";

// The codecs that positions can have.
inline constexpr const char* kPositionCodecNames = "float32, bfloat16, int8, int4, topk";

// The codec of this name, without its parameter; none if there is no such codec.
std::optional<CodecConfig> CodecNamed(const std::string& name);
// The codec of this name for positions, and its name; none if there is no such codec. "topk" is
// kSparse (ExchangeConfig::position_codec).
std::optional<Codec> PositionCodecNamed(const std::string& name);
std::string PositionCodecName(Codec codec);
// The name of a codec, without its parameter.
std::string CodecName(const CodecConfig& codec);

// True if the codec has this parameter.
inline bool HasThreshold(const CodecConfig& codec) {
  return codec.codec == Codec::kSparse && codec.choice == SparseChoice::kThreshold;
}
inline bool HasShare(const CodecConfig& codec) {
  return codec.codec == Codec::kSparse && codec.choice != SparseChoice::kThreshold;
}
// The range of each. False for NaN too.
bool IsThreshold(double threshold);
bool IsShare(double share);

// Reads float32, bfloat16, int8, int4, sparse:THRESHOLD, topk:SHARE or random:SHARE. None for
// another text.
std::optional<CodecConfig> ParseCodec(const std::string& text);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_CODEC_CONFIG_H_
