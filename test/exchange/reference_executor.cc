#include "test/exchange/reference_executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "exchange/kernels/sparse_choice.h"
#include "millrace/merge_rule.h"

namespace millrace::test {
namespace {

template <typename T>
void Append(std::vector<std::byte>* bytes, T value) {
  const size_t at = bytes->size();
  bytes->resize(at + sizeof(T));
  memcpy(bytes->data() + at, &value, sizeof(T));
}

template <typename T>
T At(const std::byte* bytes, size_t offset) {
  T value;
  memcpy(&value, bytes + offset, sizeof(T));
  return value;
}

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

size_t BitmapBytes(size_t n) {
  size_t bytes = (n + 7) / 8;
  while (bytes % 4 != 0) ++bytes;
  return bytes;
}

uint8_t DecodeSparse(const std::byte* in, size_t bytes, std::vector<float>* d) {
  const size_t n = d->size(), bitmap = BitmapBytes(n);
  if (bytes < bitmap) return kMalformed;
  size_t at = bitmap;
  for (size_t i = 0; i < 8 * bitmap; ++i) {
    const bool present = (static_cast<unsigned>(in[i / 8]) >> (i % 8)) & 1;
    if (present && (i >= n || at + 4 > bytes)) return kMalformed;
    if (i < n) (*d)[i] = present ? At<float>(in, at) : 0.0f;
    if (present) at += 4;
  }
  return at == bytes ? 0 : kMalformed;
}

}  // namespace

float NearestBfloat16(float x) {
  // The two neighbours: truncated, and one step farther from zero.
  uint32_t bits;
  memcpy(&bits, &x, 4);
  const uint32_t below_bits = bits & 0xffff0000u, above_bits = below_bits + 0x10000u;
  float below, above;
  memcpy(&below, &below_bits, 4);
  memcpy(&above, &above_bits, 4);
  // The successor of the largest finite value would be 2^128.
  const double next = std::isfinite(above) ? above : std::copysign(std::ldexp(1.0, 128), x);
  const double down = std::fabs(double{x} - below), up = std::fabs(next - double{x});
  if (down != up) return down < up ? below : above;
  return (below_bits >> 16) % 2 == 0 ? below : above;
}

int NearestLevel(float x, float scale) {
  const float quotient = x / scale;
  if (!(std::fabs(quotient) < 127)) return quotient > 0 ? 127 : -127;
  const double floor = std::floor(double{quotient}), part = double{quotient} - floor;
  const int low = static_cast<int>(floor);
  if (part != 0.5) return part < 0.5 ? low : low + 1;
  return low % 2 == 0 ? low : low + 1;
}

namespace {

uint32_t BitsOf(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

// The levels of a block if all values are multiples of the scale, which is a bfloat16.
std::optional<std::vector<int>> LevelsOf(const std::vector<float>& block, float scale) {
  if (BitsOf(scale) % 65536 != 0) return std::nullopt;
  std::vector<int> levels;
  for (const float x : block) {
    const int level = scale == 0 ? 0 : static_cast<int>(std::lround(double{x} / scale));
    if (std::abs(level) > 7 || double{x} != double{scale} * level) return std::nullopt;
    levels.push_back(level);
  }
  return levels;
}

void EncodeInt4(const std::vector<float>& d, std::vector<std::byte>* bytes) {
  std::vector<int> levels;
  for (size_t begin = 0; begin < d.size(); begin += 16) {
    const std::vector<float> block(d.begin() + begin, d.begin() + std::min(begin + 16, d.size()));
    float largest = 0;
    for (const float x : block) largest = std::max(largest, std::fabs(x));
    for (int divisor = 7; divisor > 0; --divisor) {
      const float scale = largest / static_cast<float>(divisor);
      const auto found = LevelsOf(block, scale);
      if (!found) continue;
      Append(bytes, static_cast<uint16_t>(BitsOf(scale) >> 16));
      levels.insert(levels.end(), found->begin(), found->end());
      break;
    }
  }
  levels.push_back(0);
  for (size_t i = 0; i + 1 < levels.size(); i += 2) {
    bytes->push_back(static_cast<std::byte>((levels[i] & 15) | (levels[i + 1] & 15) << 4));
  }
}

// A seventh of the largest value of each block, rounded up to a bfloat16.
std::vector<float> Int4ScalesOf(const std::vector<float>& values) {
  std::vector<float> scales;
  for (size_t begin = 0; begin < values.size(); begin += 16) {
    float largest = 0;
    for (size_t i = begin; i < std::min(begin + 16, values.size()); ++i) {
      largest = std::max(largest, std::fabs(values[i]));
    }
    const float exact = largest / 7;
    float scale = NearestBfloat16(exact);
    if (scale < exact) {
      const uint32_t next = BitsOf(scale) + 65536;
      memcpy(&scale, &next, 4);
    }
    scales.push_back(largest < std::ldexp(1.0f, -100) ? 0 : scale);
  }
  return scales;
}

}  // namespace

ReferencePayload ReferenceEncode(Codec codec, const std::vector<float>& d, float scale) {
  ReferencePayload payload;
  payload.codec = codec;
  payload.scale = scale;
  auto* bytes = &payload.bytes;
  if (codec == Codec::kInt8) Append(bytes, scale);
  if (codec == Codec::kInt4) {
    EncodeInt4(d, bytes);
    return payload;
  }
  if (codec == Codec::kSparse) {
    bytes->resize(BitmapBytes(d.size()));
    for (size_t i = 0; i < d.size(); ++i) {
      if (d[i] != 0) (*bytes)[i / 8] |= std::byte{1} << (i % 8);
    }
  }
  for (float x : d) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (codec == Codec::kFloat32 || (codec == Codec::kSparse && x != 0)) Append(bytes, x);
    if (codec == Codec::kBfloat16) Append(bytes, static_cast<uint16_t>(bits >> 16));
    if (codec == Codec::kInt8) Append(bytes, static_cast<int8_t>(NearestLevel(x, scale)));
  }
  if (codec == Codec::kSparse && bytes->size() >= 4 * d.size()) {
    return ReferenceEncode(Codec::kFloat32, d, scale);
  }
  return payload;
}

uint8_t ReferenceDecode(Codec codec, const std::byte* in, size_t bytes, std::vector<float>* d) {
  const size_t n = d->size();
  if (codec == Codec::kSparse) {
    const uint8_t result = DecodeSparse(in, bytes, d);
    if (result != 0) return result;
  } else if (bytes != (codec == Codec::kFloat32    ? 4 * n
                       : codec == Codec::kBfloat16 ? 2 * n
                       : codec == Codec::kInt4     ? (n + 15) / 16 * 2 + (n + 1) / 2
                                                   : 4 + n)) {
    return kMalformed;
  }
  float scale = 0;
  if (codec == Codec::kInt8) {
    scale = At<float>(in, 0);
    if (!std::isfinite(scale * 128)) return kNonFinite;
  }
  for (size_t i = 0; i < n; ++i) {
    if (codec == Codec::kFloat32) (*d)[i] = At<float>(in, 4 * i);
    if (codec == Codec::kInt8) (*d)[i] = scale * static_cast<float>(At<int8_t>(in, 4 + i));
    if (codec == Codec::kBfloat16) {
      const uint32_t bits = uint32_t{At<uint16_t>(in, 2 * i)} << 16;
      memcpy(&(*d)[i], &bits, 4);
    }
    if (codec == Codec::kInt4) {
      const uint32_t bits = uint32_t{At<uint16_t>(in, i / 16 * 2)} << 16;
      memcpy(&scale, &bits, 4);
      if (!std::isfinite(scale * 8)) return kNonFinite;
      const int pair = At<uint8_t>(in, (n + 15) / 16 * 2 + i / 2);
      const int level = i % 2 == 0 ? pair % 16 : pair / 16;
      (*d)[i] = scale * static_cast<float>(level < 8 ? level : level - 16);
    }
  }
  return AllFinite(*d) ? 0 : kNonFinite;
}

void ReferenceExecutor::Thin(uint32_t chunk, std::vector<float>* offers) {
  const uint32_t round = rounds_[chunk]++;
  if (codec_.choice == SparseChoice::kThreshold) {
    for (float& x : *offers) {
      if (std::fabs(x) < codec_.threshold) x = 0;
    }
    return;
  }
  // Sorted by key; equal keys by place.
  const size_t n = offers->size();
  std::vector<std::pair<double, size_t>> keys;
  for (size_t i = 0; i < n; ++i) {
    const float x = (*offers)[i];
    if (x == 0) continue;
    const double random =
        ChoiceKey(SparseChoice::kRandom, ChoiceSeed(chunk, round), static_cast<int64_t>(i), 1);
    keys.emplace_back(codec_.choice == SparseChoice::kTop ? -double{std::fabs(x)} : -random, i);
  }
  std::sort(keys.begin(), keys.end());
  const double share = codec_.share * static_cast<double>(n);
  keys.resize(std::min(keys.size(), static_cast<size_t>(std::ceil(share - 1e-9))));
  std::vector<float> sent(n);
  for (const auto& [key, i] : keys) sent[i] = (*offers)[i];
  *offers = sent;
}

void ReferenceExecutor::Round(const ChunkOp& op, std::vector<float>* offers, float* scale) {
  const Codec codec = op.codec;
  const auto travels = [codec](float x) {
    if (codec == Codec::kBfloat16) return std::isfinite(x) && std::isfinite(NearestBfloat16(x));
    if (codec == Codec::kInt4) return std::fabs(x) < std::ldexp(1.0f, 126);
    return std::isfinite(codec == Codec::kInt8 ? std::fabs(x) / 127 * 128 : x);
  };
  float largest = 0;
  for (float& x : *offers) {
    if (!travels(x)) x = 0;
    largest = std::max(largest, std::fabs(x));
  }
  if (codec == Codec::kInt8) *scale = largest / 127;
  if (codec == Codec::kSparse) Thin(op.chunk, offers);
  if (codec == Codec::kInt4) {
    const std::vector<float> scales = Int4ScalesOf(*offers);
    for (size_t i = 0; i < offers->size(); ++i) {
      float& x = (*offers)[i];
      const float of_block = scales[i / 16];
      x = of_block == 0 ? 0 : of_block * static_cast<float>(NearestLevel(x, of_block));
    }
  }
  for (float& x : *offers) {
    if (codec == Codec::kBfloat16) x = NearestBfloat16(x);
    if (codec == Codec::kInt8) {
      x = *scale == 0 ? 0 : *scale * static_cast<float>(NearestLevel(x, *scale));
    }
  }
}

void ReferenceExecutor::Write(Codec codec, const std::vector<float>& d, ChunkOp* op) {
  const ReferencePayload payload = ReferenceEncode(codec, d, op->scale);
  op->out_codec = payload.codec;
  op->out_bytes = static_cast<uint32_t>(payload.bytes.size());
  memcpy(op->out, payload.bytes.data(), payload.bytes.size());
}

void ReferenceExecutor::Move(ChunkOp* op, const float* position, bool take, bool acknowledged) {
  const int64_t begin = op->chunk * arrays_.chunk_floats, n = arrays_.floats_of(op->chunk);
  float *w = arrays_.weights + begin, *base = arrays_.base + begin;
  float* pending = arrays_.pending + begin;
  std::vector<float> u(n), d(n);
  for (int64_t i = 0; i < n; ++i) {
    u[i] = w[i] - base[i];
    if (!take) continue;
    u[i] = WithState(op->chunk, i, [&](float* state) {
      return rule_.compensate(u[i], position[i] - base[i], state);
    });
  }
  if (take) {
    const auto offer = [&](float x) { return op->share * rule_.offer(x); };
    std::transform(u.begin(), u.end(), d.begin(), offer);
    Round(*op, &d, &op->scale);
  }
  const bool sends = std::any_of(d.begin(), d.end(), [](float x) { return x != 0; });
  const auto remains = [&](int64_t i) {
    if (op->drop_rest) return 0.0f;
    if (!sends) return u[i];
    if (op->share == 1 || !rule_.changes_unsent) return rule_.keep(u[i], d[i]);
    const float offered = op->share * u[i];
    return rule_.keep(offered, d[i]) + (u[i] - offered);
  };
  for (int64_t i = 0; i < n; ++i) {
    const float p = take ? d[i] : acknowledged ? 0 : pending[i];
    base[i] = position[i] + p;
    w[i] = base[i] + remains(i);
    pending[i] = p;
    if (d[i] != 0) op->result |= kNonZero;
    if (w[i] != base[i]) op->result |= kRemainder;
  }
  op->out_codec = op->codec;
  op->out_bytes = (op->result & kNonZero) && op->out != nullptr ? op->out_bytes : 0;
  if (op->out_bytes != 0) Write(op->codec, d, op);
}

void ReferenceExecutor::ClearState(const ChunkOp& op) {
  for (int k = 0; k < rule_.state_floats; ++k) {
    float* const state = arrays_.rule_state + k * arrays_.size;
    std::fill_n(state + op.chunk * arrays_.chunk_floats, arrays_.floats_of(op.chunk), 0.0f);
  }
}

float ReferenceExecutor::WithState(uint32_t chunk, int64_t i,
                                   const std::function<float(float*)>& change) {
  const int64_t element = chunk * arrays_.chunk_floats + i;
  float state[kMaxStateFloats];
  const auto at = [&](int k) -> float& { return arrays_.rule_state[k * arrays_.size + element]; };
  for (int k = 0; k < rule_.state_floats; ++k) state[k] = at(k);
  const float result = change(state);
  for (int k = 0; k < rule_.state_floats; ++k) at(k) = state[k];
  return result;
}

void ReferenceExecutor::Align(uint32_t chunk, std::vector<float>* d) {
  const float* const s = arrays_.rule_state + chunk * arrays_.chunk_floats;
  float ds = 0, dd = 0, ss = 0;
  for (size_t lane = 0; lane < 32; ++lane) {
    float lane_ds = 0, lane_dd = 0, lane_ss = 0;
    for (size_t i = lane; i < d->size(); i += 32) {
      lane_ds += (*d)[i] * s[i];
      lane_dd += (*d)[i] * (*d)[i];
      lane_ss += s[i] * s[i];
    }
    ds += lane_ds, dd += lane_dd, ss += lane_ss;
  }
  const auto [own, along] = rule_.align(ds, dd, ss);
  for (size_t i = 0; i < d->size(); ++i) (*d)[i] = own * (*d)[i] + along * s[i];
}

void ReferenceExecutor::RunOne(ChunkOp* op) {
  const int64_t begin = op->chunk * arrays_.chunk_floats, n = arrays_.floats_of(op->chunk);
  float *w = arrays_.weights + begin, *base = arrays_.base + begin;
  float* pending = arrays_.pending + begin;
  std::vector<float> in(n);
  op->result = 0;
  if (op->kind == ChunkOpKind::kExchange || op->kind == ChunkOpKind::kLoad) {
    op->result = ReferenceDecode(Codec::kFloat32, op->in, op->in_bytes, &in);
  } else if (op->kind == ChunkOpKind::kMerge) {
    op->result = ReferenceDecode(op->codec, op->in, op->in_bytes, &in);
  }
  if (op->result != 0) {
    if (op->kind != ChunkOpKind::kMerge) op->out_bytes = 0;
    return;
  }
  const float share = rule_.takes_share ? op->share : 1;
  const auto merged = [&](int64_t i, float before, float d, uint32_t staleness) {
    return WithState(op->chunk, i, [&](float* state) {
      return rule_.merge(before, share * d, state, staleness);
    });
  };
  switch (op->kind) {
    case ChunkOpKind::kRead:
      return Write(Codec::kFloat32, {w, w + n}, op);
    case ChunkOpKind::kExchange:
      return Move(op, in.data(), op->take, op->acknowledged);
    case ChunkOpKind::kTake: {
      const std::vector<float> position(base, base + n);
      return Move(op, position.data(), true, true);
    }
    case ChunkOpKind::kEncodePending:
      return Write(op->codec, {pending, pending + n}, op);
    case ChunkOpKind::kMerge:
      if (rule_.align) Align(op->chunk, &in);
      for (int64_t i = 0; i < n; ++i) {
        const bool present = op->codec != Codec::kSparse ||
                             (static_cast<unsigned>(op->in[i / 8]) >> (i % 8) & 1) != 0;
        if (rule_.zero_changes_nothing && !present) continue;
        const float before = rule_.merges_own ? base[i] : w[i];
        const float after = merged(i, before, in[i], op->staleness);
        w[i] = w[i] == before || !rule_.merges_own ? after : w[i] + (after - before);
        if (rule_.merges_own) base[i] = after;
      }
      return;
    case ChunkOpKind::kMergeOwn:
      for (int64_t i = 0; i < n; ++i) {
        const float before = base[i] - pending[i], u = w[i] - before;
        base[i] = merged(i, before, std::isfinite(u) ? u : 0, 0);
        if (std::isfinite(u)) w[i] = base[i];
        pending[i] = 0;
      }
      if (op->out != nullptr) Write(Codec::kFloat32, {base, base + n}, op);
      return;
    case ChunkOpKind::kTakeBack:
      for (int64_t i = 0; i < n; ++i) base[i] -= pending[i], pending[i] = 0;
      return ClearState(*op);
    case ChunkOpKind::kLoad:
      for (int64_t i = 0; i < n; ++i) w[i] = base[i] = in[i], pending[i] = 0;
      return ClearState(*op);
    case ChunkOpKind::kReturn:
      for (int64_t i = 0; i < n; ++i) in[i] = base[i] - pending[i];
      return Write(Codec::kFloat32, in, op);
    case ChunkOpKind::kDemote:
      for (int64_t i = 0; i < n; ++i) base[i] = w[i], pending[i] = 0;
      return ClearState(*op);
    case ChunkOpKind::kDropRest:
      for (int64_t i = 0; i < n; ++i) w[i] = base[i], pending[i] = 0;
      return;
  }
}

void ReferenceExecutor::Run(std::span<ChunkOp> ops) {
  for (ChunkOp& op : ops) RunOne(&op);
}

}  // namespace millrace::test
