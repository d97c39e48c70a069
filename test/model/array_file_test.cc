// Files of named arrays: types of numbers, damaged files, pickles that do other things.
#include "model/arrays/array_file.h"

#include <zlib.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "model/arrays/pickle.h"
#include "model/arrays/zip.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

template <typename T>
std::string BytesIn(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

NamedArray Floats(const std::string& name, const ArrayShape& shape,
                  const std::vector<float>& values) {
  return {name, shape, ElementType::kFloat32, BytesIn(values)};
}

// The number of a half: sign, 5 bits of exponent, 10 of mantissa (IEEE 754).
double HalfValue(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? mantissa * std::pow(2, -24)
                               : (1024 + mantissa) * std::pow(2, exponent - 25));
}

TEST(ElementType, ReadsEveryHalfAndRoundsToTheNearest) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float read = FloatsOf(ElementType::kFloat16, BytesIn<uint16_t>({half}))[0];
    const double expected = HalfValue(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(read)) << bits;
      continue;
    }
    ASSERT_EQ(read, expected) << bits;
    ASSERT_EQ(BytesOfFloats(ElementType::kFloat16, {read}), BytesIn<uint16_t>({half})) << bits;
    // What lies between this one and the next goes to the nearer, from the middle to the even one.
    const double next = HalfValue(half + 1);
    if (!std::isfinite(expected) || !std::isfinite(next)) continue;
    const auto middle = static_cast<float>((expected + next) / 2);
    const uint16_t even = (half & 1) == 0 ? half : half + 1;
    ASSERT_EQ(BytesOfFloats(ElementType::kFloat16, {middle}), BytesIn<uint16_t>({even})) << bits;
    const auto below = static_cast<float>(expected + (next - expected) * 0.49);
    ASSERT_EQ(BytesOfFloats(ElementType::kFloat16, {below}), BytesIn<uint16_t>({half})) << bits;
  }
  EXPECT_EQ(BytesOfFloats(ElementType::kFloat16, {65519.0f}), BytesIn<uint16_t>({0x7bff}));
  EXPECT_EQ(BytesOfFloats(ElementType::kFloat16, {65520.0f}), BytesIn<uint16_t>({0x7c00}));
  EXPECT_EQ(BytesOfFloats(ElementType::kFloat16, {-1e30f}), BytesIn<uint16_t>({0xfc00}));
}

TEST(ElementType, ReadsEveryBfloatAndRoundsToTheNearest) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const std::string bytes = BytesIn<uint16_t>({static_cast<uint16_t>(bits)});
    const float read = FloatsOf(ElementType::kBfloat16, bytes)[0];
    if (std::isnan(read)) {
      EXPECT_TRUE(std::isnan(
          FloatsOf(ElementType::kBfloat16, BytesOfFloats(ElementType::kBfloat16, {read}))[0]));
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(read), bits << 16);
    ASSERT_EQ(BytesOfFloats(ElementType::kBfloat16, {read}), bytes);
  }
  const auto from = [](uint32_t bits) {
    return BytesOfFloats(ElementType::kBfloat16, {std::bit_cast<float>(bits)});
  };
  EXPECT_EQ(from(0x3f808000), BytesIn<uint16_t>({0x3f80}));  // from the middle to the even one
  EXPECT_EQ(from(0x3f818000), BytesIn<uint16_t>({0x3f82}));
  EXPECT_EQ(from(0x3f808001), BytesIn<uint16_t>({0x3f81}));
  EXPECT_EQ(from(0x7f7fffff), BytesIn<uint16_t>({0x7f80}));
}

TEST(ElementType, ReadsIntegersAndDoubles) {
  EXPECT_EQ(FloatsOf(ElementType::kInt8, "\x80\x7f"), (std::vector<float>{-128, 127}));
  EXPECT_EQ(FloatsOf(ElementType::kUint8, "\x80\x7f"), (std::vector<float>{128, 127}));
  EXPECT_EQ(FloatsOf(ElementType::kBool, std::string("\0\1\2", 3)), (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(FloatsOf(ElementType::kInt64, BytesIn<int64_t>({-5, int64_t{1} << 40})),
            (std::vector<float>{-5, std::ldexp(1.0f, 40)}));
  EXPECT_EQ(FloatsOf(ElementType::kFloat64, BytesIn<double>({0.1})), (std::vector<float>{0.1f}));
  EXPECT_CONTAINS(ErrorOf([] { BytesOfFloats(ElementType::kInt8, {1}); }), "type int8: expected");
}

TEST(ArrayFile, KeepsArraysThroughBothFormats) {
  const std::vector<NamedArray> arrays = {
      Floats("a \"quoted\" \\ name\n", {2, 3}, {1, 2, 3, 4, 5, 6}),
      Floats("\xc3\xa4", {}, {7}),
      Floats("none", {0, 4}, {}),
      {"i", {3}, ElementType::kInt16, BytesIn<int16_t>({-1, 0, 1})},
  };
  for (const auto& [parse, write] :
       {std::pair(&ParseSafetensors, &SafetensorsOf), std::pair(&ParseNpz, &NpzOf)}) {
    const std::vector<NamedArray> read = parse(write(arrays, "f"), "f");
    ASSERT_EQ(read.size(), arrays.size());
    for (const NamedArray& array : arrays) {
      const auto found = std::find_if(read.begin(), read.end(), [&](const NamedArray& each) {
        return each.name == array.name;
      });
      ASSERT_NE(found, read.end()) << array.name;
      EXPECT_EQ(found->shape, array.shape);
      EXPECT_EQ(found->type, array.type);
      EXPECT_EQ(found->bytes, array.bytes);
    }
  }
}

// Any file that ends early, or with one byte changed, is read or refused in one line with its name.
TEST(ArrayFile, RefusesTruncatedFilesInOneLine) {
  const std::vector<NamedArray> arrays = {Floats("a", {2}, {1, 2}), Floats("b", {1}, {3})};
  for (const auto& [parse, whole] : {std::pair(&ParseSafetensors, SafetensorsOf(arrays, "f")),
                                     std::pair(&ParseNpz, NpzOf(arrays, "f"))}) {
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const std::string error = ErrorOf([&] { parse(whole.substr(0, bytes), "the-file"); });
      EXPECT_EQ(error.rfind("the-file: ", 0), 0u) << error;
    }
  }
}

std::string Safetensors(const std::string& header, size_t data_bytes) {
  return BytesIn<uint64_t>({header.size()}) + header + std::string(data_bytes, '\0');
}

TEST(Safetensors, RefusesWhatTheReferenceRefuses) {
  const auto error = [](const std::string& header, size_t bytes) {
    return ErrorOf([&] { ParseSafetensors(Safetensors(header, bytes), "f"); });
  };
  const std::string a = "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}";
  EXPECT_EQ(ParseSafetensors(Safetensors("{" + a + "}  ", 4), "f").size(), 1u);
  EXPECT_EQ(ParseSafetensors(Safetensors("{}", 0), "f").size(), 0u);
  EXPECT_CONTAINS(error("{" + a + "}", 5), "1 bytes behind the last array");
  EXPECT_CONTAINS(error("{" + a + "}", 3), "data_offsets 0 to 4, expected 0 to at most 3");
  EXPECT_CONTAINS(error("{" + a + "} x", 4), "expected the end");
  EXPECT_CONTAINS(
      error("{" + a + ",\"b\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[3,5]}}", 5),
      "array 'b': data_offsets 3 to 5, expected 4");
  EXPECT_CONTAINS(error("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4),
                  "4 bytes of data, expected 8");
  EXPECT_CONTAINS(
      error("{\"a\":{\"dtype\":\"F32\",\"shape\":[1099511627776,4],\"data_offsets\":[0,4]}}", 4),
      "more than 1099511627776 values");
  EXPECT_CONTAINS(error("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4),
                  "expected a whole number");
  EXPECT_CONTAINS(error("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4), "data_offsets");
  EXPECT_CONTAINS(ErrorOf([] { ParseSafetensors(std::string(8, '\xff'), "f"); }), "f: ");
}

// A ZIP64 archive, with the sizes in extra fields, as NumPy writes a large one.
TEST(Zip, ReadsZip64) {
  const std::string contents = "contents";
  const auto crc =
      static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(contents.data()), 8));
  const std::string common = BytesIn<uint16_t>({45, 0, 0, 0, 33}) + BytesIn<uint32_t>({crc}) +
                             BytesIn<uint32_t>({0xffffffff, 0xffffffff});
  const std::string extra = BytesIn<uint16_t>({1, 16}) + BytesIn<uint64_t>({8, 8});
  std::string file = "PK\3\4" + common + BytesIn<uint16_t>({1, 20}) + "x" + extra + contents;
  const uint64_t directory = file.size();
  const std::string extra_offset = BytesIn<uint16_t>({1, 24}) + BytesIn<uint64_t>({8, 8, 0});
  file += "PK\1\2" + BytesIn<uint16_t>({45}) + common + BytesIn<uint16_t>({1, 28, 0, 0, 0, 0, 0}) +
          BytesIn<uint32_t>({0xffffffff}) + "x" + extra_offset;
  const uint64_t end = file.size();
  file += "PK\6\6" + BytesIn<uint64_t>({44}) + BytesIn<uint16_t>({45, 45}) +
          BytesIn<uint32_t>({0, 0}) + BytesIn<uint64_t>({1, 1, end - directory, directory});
  file += "PK\6\7" + BytesIn<uint32_t>({0}) + BytesIn<uint64_t>({end}) + BytesIn<uint32_t>({1});
  file += "PK\5\6" + BytesIn<uint16_t>({0, 0, 0xffff, 0xffff}) +
          BytesIn<uint32_t>({0xffffffff, 0xffffffff}) + BytesIn<uint16_t>({0});
  const ZipReader zip(file, "f");
  ASSERT_EQ(zip.names(), std::vector<std::string>{"x"});
  EXPECT_EQ(zip.Read(0), contents);
  std::string damaged = file;
  damaged[damaged.find("contents")] = 'C';
  EXPECT_EQ(ErrorOf([&] { ZipReader(damaged, "f").Read(0); }), "f: x: the checksum differs");
}

// ---- Pickles ----

std::string Global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string Text(const std::string& text) {
  return "X" + BytesIn<uint32_t>({static_cast<uint32_t>(text.size())}) + text;
}

TEST(Pickle, ReadsDictsOfTensors) {
  const std::string pickle =
      "\x80\x02" + Global("collections", "OrderedDict") + ")Rq" + std::string(1, '\0') + "(" +
      Text("w") + Global("torch._utils", "_rebuild_tensor_v2") + "(" + "(" + Text("storage") +
      Global("torch", "FloatStorage") + Text("0") + Text("cpu") + "K\4tQ" + std::string("K\0", 2) +
      "K\4\x85K\1\x85\x89" + Global("collections", "OrderedDict") + ")RtRu.";
  const Pickle read(pickle, "f");
  ASSERT_EQ(read.value().pairs.size(), 1u);
  EXPECT_EQ(read.value().pairs[0].first->text, "w");
  const PickleValue& tensor = *read.value().pairs[0].second;
  ASSERT_EQ(tensor.kind, PickleValue::Kind::kTensor);
  EXPECT_EQ(tensor.items[2]->items[0]->number, 4);
}

TEST(Pickle, ExecutesNothing) {
  const auto error = [](const std::string& pickle) {
    return ErrorOf([&] { Pickle("\x80\x02" + pickle, "f"); });
  };
  EXPECT_EQ(error(Global("os", "system") + Text("touch /tmp/x") + "\x85R."),
            "f: names 'os system', which a dict of tensors does not need; nothing was executed");
  EXPECT_CONTAINS(error(Global("torch", "load") + ")R."), "names 'torch load'");
  EXPECT_CONTAINS(error(Global("builtins", "eval") + "."), "names 'builtins eval'");
  // Opcodes that call: INST, OBJ, NEWOBJ, STACK_GLOBAL, EXT1.
  for (const char opcode : {'i', 'o', '\x81', '\x93', '\x82'}) {
    EXPECT_CONTAINS(error(std::string(1, opcode) + "."), "does not need");
  }
  EXPECT_CONTAINS(error(Global("collections", "OrderedDict") + "K\1\x85R."), "a call of");
  EXPECT_CONTAINS(error("h\5."), "has not been stored");
  EXPECT_CONTAINS(error("t."), "no mark");
  EXPECT_CONTAINS(error("b."), "no value");
  EXPECT_CONTAINS(error("N"), "1 bytes expected and 0 left");
  EXPECT_CONTAINS(error("NN."), "one value");
  EXPECT_CONTAINS(ErrorOf([] { Pickle("\x80\x04N.", "f"); }), "protocol 2");
  // A dict that contains itself.
  EXPECT_EQ(Pickle("\x80\x02}q\1" + Text("x") + "h\1s.", "f").value().pairs.size(), 1u);
}

std::string TorchFile(const std::string& storage_type, const std::string& numbers,
                      const std::string& data) {
  ZipWriter zip("f");
  zip.Add("a/data.pkl", "\x80\x02}" + Text("w") + Global("torch._utils", "_rebuild_tensor_v2") +
                            "((" + Text("storage") + Global("torch", storage_type) + Text("0") +
                            Text("cpu") + "K\4tQ" + numbers + "\x89NtRs.");
  zip.Add("a/data/0", data);
  return zip.Finish();
}

TEST(Torch, RefusesTensorsThatAreNotInTheirStorage) {
  const std::string data(16, '\0');
  const auto error = [&](const std::string& numbers) {
    return ErrorOf([&] { ParseTorch(TorchFile("FloatStorage", numbers, data), "f"); });
  };
  // Offset, shape, stride.
  EXPECT_EQ(
      ParseTorch(TorchFile("FloatStorage", std::string("K\0", 2) + "K\4\x85K\1\x85", data), "f")
          .size(),
      1u);
  EXPECT_CONTAINS(error("K\1K\4\x85K\1\x85"), "a view beyond the 4 values");
  EXPECT_CONTAINS(error(std::string("K\0", 2) + "K\2\x85K\4\x85"), "a view beyond");
  EXPECT_CONTAINS(error(std::string("K\0", 2) + "K\5\x85" + std::string("K\0", 2) + "\x85"),
                  "5 values of a storage of 4");
  EXPECT_CONTAINS(error("J\xff\xff\xff\xffK\1\x85K\1\x85"), "a view beyond");
  EXPECT_CONTAINS(error("K\1J\xff\xff\xff\xff\x85K\1\x85"), "no number from 0 on");
  EXPECT_CONTAINS(
      error(std::string("K\0", 2) + "K\2\x85\x8a\x08" + std::string(7, '\xff') + "\x7f\x85"),
      "a view beyond");
  EXPECT_CONTAINS(error(std::string("K\0", 2) + "K\2\x85)"), "0 strides of 1 axes");
  EXPECT_CONTAINS(ErrorOf([&] {
                    ParseTorch(TorchFile("ComplexFloatStorage", "K\1K\1\x85K\1\x85", data), "f");
                  }),
                  "numbers of type torch ComplexFloatStorage are not known");
  ZipWriter list("f");
  list.Add("a/data.pkl", "\x80\x02].");
  const std::string bytes = list.Finish();
  EXPECT_CONTAINS(ErrorOf([&] { ParseTorch(bytes, "f"); }), "a list, expected a dict of tensors");
}

}  // namespace
}  // namespace millrace::test
