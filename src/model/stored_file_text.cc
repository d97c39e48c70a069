// What files hold, as text and as JSON.
#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/text/json.h"
#include "model/layer_text.h"
#include "model/stored_file.h"

namespace millrace::inline model {
namespace {

const char* KindName(StoredFile::Kind kind) {
  switch (kind) {
    case StoredFile::Kind::kState:
      return "solverstate";
    case StoredFile::Kind::kMean:
      return "mean";
    case StoredFile::Kind::kModel:
      break;
  }
  return "caffemodel";
}

std::string Short(double value) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.4g", value);
  return digits;
}

using Row = std::array<std::string, 10>;

Row RowOf(const std::string& name, const std::string& type, const Shape& shape, int64_t bytes,
          const ValueStats& values) {
  const auto number = [&](double value) {
    return values.count() > values.nans() + values.infinities() ? Short(value) : "-";
  };
  return {OneLine(name),
          OneLine(type),
          DimsText(shape),
          GroupedDigits(values.count()),
          GroupedDigits(bytes),
          number(values.min()),
          number(values.max()),
          number(values.mean()),
          number(values.std()),
          values.nans() + values.infinities() == 0
              ? ""
              : StrCat(values.nans(), " NaN, ", values.infinities(), " Inf")};
}

void AddRows(const StoredArray& array, const std::string& type, std::vector<Row>* rows) {
  rows->push_back(RowOf(array.name, type, array.shape, array.bytes, array.values));
  if (array.diffs.count() > 0) {
    rows->push_back(RowOf(array.name + " diff", type, array.shape,
                          array.diffs.count() * int64_t{sizeof(float)}, array.diffs));
  }
}

// The number of characters: every byte that does not continue one.
size_t Width(const std::string& text) {
  size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return width;
}

// Columns as wide as their longest cells; the first three begin at the left.
std::string Table(const std::vector<Row>& rows) {
  std::array<size_t, 10> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string blanks(widths[i] - Width(row[i]), ' ');
      line += "  " + (i < 3 || i == 9 ? row[i] + blanks : blanks + row[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string Heading(const StoredFile& file) {
  std::string text =
      StrCat(OneLine(file.path), ": ", KindName(file.kind), file.is_hdf5 ? " (HDF5)" : "");
  if (file.kind == StoredFile::Kind::kModel) {
    if (!file.net_name.empty()) text += " of '" + OneLine(file.net_name) + "'";
    if (!file.earlier_format.empty())
      text += ", in an earlier format (" + file.earlier_format + ")";
  }
  int64_t count = 0, bad = 0;
  for (const StoredArray* array : file.Arrays()) {
    count += array->values.count();
    bad += array->values.nans() + array->values.infinities();
  }
  text += StrCat(", ", GroupedDigits(count), " values, ", GroupedDigits(file.file_bytes), " bytes");
  if (bad > 0) text += StrCat(", ", GroupedDigits(bad), " of the values not finite");
  return text + "\n";
}

std::string StateLines(const StoredFile& file) {
  std::string text = StrCat("  iteration ", file.iteration, ", step ", file.current_step,
                            ", weights in ", OneLine(file.model_path), "\n");
  if (file.has_seed) text += StrCat("  seed ", file.seed, "\n");
  for (const StoredHistory& history : file.histories) {
    text += StrCat("  solver ", history.solver, ": ", history.arrays.size(),
                   history.arrays.size() == 1 ? " array" : " arrays", " of history");
    if (history.updates >= 0) text += StrCat(", of ", history.updates, " updates");
    text += "\n";
  }
  for (const std::string& position : file.data_positions)
    text += "  data: " + OneLine(position) + "\n";
  return text;
}

// ---- JSON ----

template <typename Values, typename Convert>
std::string List(const Values& values, Convert convert) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : ",") + convert(value);
  return "[" + text + "]";
}

std::string StatsJson(const ValueStats& values) {
  return StrCat("\"count\":", values.count(), ",\"min\":", JsonNumber(values.min()),
                ",\"max\":", JsonNumber(values.max()), ",\"mean\":", JsonNumber(values.mean()),
                ",\"std\":", JsonNumber(values.std()), ",\"nan\":", values.nans(),
                ",\"inf\":", values.infinities());
}

std::string ArrayJson(const StoredArray& array) {
  std::string text =
      StrCat("{\"name\":", JsonText(array.name),
             ",\"shape\":", List(array.shape, [](int64_t dim) { return StrCat(dim); }),
             ",\"bytes\":", array.bytes, ",", StatsJson(array.values));
  if (array.diffs.count() > 0) text += ",\"diff\":{" + StatsJson(array.diffs) + "}";
  return text + "}";
}

std::string LayerJson(const StoredLayer& layer) {
  return StrCat("{\"name\":", JsonText(layer.name), ",\"type\":", JsonText(layer.type),
                ",\"blobs\":", List(layer.blobs, ArrayJson), "}");
}

std::string HistoryJson(const StoredHistory& history) {
  return StrCat("{\"solver\":", history.solver,
                ",\"updates\":", history.updates < 0 ? "null" : StrCat(history.updates),
                ",\"arrays\":", List(history.arrays, ArrayJson), "}");
}

}  // namespace

std::string StoredFileText(const StoredFile& file) {
  std::vector<Row> rows = {
      {"array", "type", "shape", "count", "bytes", "min", "max", "mean", "std", ""}};
  for (const StoredLayer& layer : file.layers) {
    for (const StoredArray& blob : layer.blobs) AddRows(blob, layer.type, &rows);
  }
  if (file.kind == StoredFile::Kind::kModel) {
    size_t without = 0;
    for (const StoredLayer& layer : file.layers) without += layer.blobs.empty();
    std::string text = Heading(file);
    if (without > 0) {
      text += StrCat("  ", without, without == 1 ? " layer" : " layers", " without weights\n");
    }
    return rows.size() > 1 ? text + Table(rows) : text;
  }
  for (const StoredArray* array : file.Arrays()) AddRows(*array, "", &rows);
  for (Row& row : rows) row[1].clear();
  return Heading(file) + (file.kind == StoredFile::Kind::kState ? StateLines(file) : "") +
         (rows.size() > 1 ? Table(rows) : "");
}

std::string StoredFileJson(const StoredFile& file) {
  std::string text = StrCat("{\"file\":", JsonText(file.path), ",\"kind\":\"", KindName(file.kind),
                            "\",\"format\":\"", file.is_hdf5 ? "HDF5" : "BINARYPROTO",
                            "\",\"file_bytes\":", file.file_bytes);
  switch (file.kind) {
    case StoredFile::Kind::kModel:
      text += StrCat(",\"name\":", JsonText(file.net_name),
                     ",\"earlier_format\":", JsonText(file.earlier_format),
                     ",\"layers\":", List(file.layers, LayerJson));
      break;
    case StoredFile::Kind::kState:
      text += StrCat(",\"iteration\":", file.iteration, ",\"current_step\":", file.current_step,
                     ",\"weights\":", JsonText(file.model_path),
                     // As text: a JSON number cannot hold all 64 bits everywhere.
                     ",\"seed\":", file.has_seed ? JsonText(StrCat(file.seed)) : "null",
                     ",\"histories\":", List(file.histories, HistoryJson),
                     ",\"data\":", List(file.data_positions, JsonText));
      break;
    case StoredFile::Kind::kMean:
      text += ",\"mean\":" + ArrayJson(file.mean);
      break;
  }
  return text + "}";
}

}  // namespace millrace::inline model
