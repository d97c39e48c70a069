#include "bench/scale/row.h"

#include <cstdio>
#include <sstream>
#include <type_traits>
#include <variant>

#include "base/error.h"

namespace millrace::scale {
namespace {

struct Column {
  const char* name;
  std::variant<int Row::*, double Row::*> value;
};

constexpr Column kColumns[] = {
    {"nodes", &Row::nodes},
    {"segments", &Row::segments},
    {"members", &Row::members},
    {"heartbeat_bytes", &Row::heartbeat},
    {"fits", &Row::fits},
    {"computed", &Row::computed},
    {"sweeps_s", &Row::sweeps},
    {"merges_s", &Row::merges},
    {"bound_sweeps_s", &Row::bound},
    {"bound_answered_sweeps_s", &Row::bound_answered},
    {"sent_mb_sweep", &Row::sent},
    {"received_mb_sweep", &Row::received},
    {"max_sent_mb_sweep", &Row::max_sent},
    {"max_received_mb_sweep", &Row::max_received},
    {"spread_mean_ms", &Row::spread_mean},
    {"spread_last_ms", &Row::spread_last},
    {"queue_mb", &Row::queue},
    {"replicas_equal", &Row::replicas_equal},
    {"cpu_s", &Row::cpu},
};

std::string Text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

void ReadRow(const std::string& line, const std::string& where, Row* row) {
  std::istringstream in(line);
  bool good = static_cast<bool>(std::getline(in, row->kind, ';'));
  for (const Column& column : kColumns) {
    std::string field;
    good = good && std::getline(in, field, ';');
    if (!good) break;
    std::istringstream in_field(field);
    double number = 0;  // counts above 9,999 are written as 1.577e+04
    in_field >> number;
    good = !in_field.fail() && in_field.eof();
    std::visit(
        [&](auto member) {
          row->*member = static_cast<std::remove_reference_t<decltype(row->*member)>>(number);
        },
        column.value);
  }
  std::string more;
  if (!good || std::getline(in, more)) {
    throw Error(where, ": expected a name and ", std::size(kColumns), " numbers");
  }
}

}  // namespace

std::string ToCsv(const std::vector<Row>& rows) {
  std::string text = "kind";
  for (const Column& column : kColumns) text += StrCat(";", column.name);
  text += "\n";
  for (const Row& row : rows) {
    text += row.kind;
    for (const Column& column : kColumns) {
      text += ";";
      std::visit([&](auto member) { text += Text(static_cast<double>(row.*member)); },
                 column.value);
    }
    text += "\n";
  }
  return text;
}

std::vector<Row> FromCsv(const std::string& text, const std::string& name) {
  std::vector<Row> rows;
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  for (int number = 2; std::getline(in, line); ++number) {
    rows.emplace_back();
    ReadRow(line, StrCat(name, ":", number), &rows.back());
  }
  if (rows.empty()) throw Error(name, ": holds no numbers, expected what make scale writes");
  return rows;
}

}  // namespace millrace::scale
