// Named parts with parameters: one clear line for whatever a file gets wrong.
#include "base/part.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::test {
namespace {

struct Entry {
  PartDescriptor part;
};

PartRegistry<Entry> Kettles() {
  PartRegistry<Entry> kettles("kettle");
  kettles.Register(
      {{.name = "round",
        .parameters = {
            {.name = "litres", .least = 0.5, .most = 3, .required = true},
            {.name = "cups", .default_value = 4, .least = 1, .most = INFINITY, .whole = true}}}});
  kettles.Register({{.name = "counted", .numbered = true}});
  return kettles;
}

TEST(Part, HasTheGivenValuesAndTheDefaultsOfTheOthers) {
  EXPECT_EQ(Kettles().Choose("kettle", "round", {{"litres", 2}}).values,
            (PartValues{{"litres", 2}, {"cups", 4}}));
  EXPECT_EQ(Kettles().Choose("kettle", "counted", {{"0", 2}, {"17", 0}}).values,
            (PartValues{{"0", 2}, {"17", 0}}));
}

TEST(Part, SaysInOneLineWhatIsWrong) {
  const auto kettles = Kettles();
  const auto error = [&](const std::string& type, const PartValues& given) {
    try {
      kettles.Choose("kettle[1]", type, given);
    } catch (const FieldError& found) {
      return found.field() + ": " + found.what();
    }
    return std::string("none");
  };
  EXPECT_EQ(error("", {}), "kettle[1].type: is missing, expected one of counted, round");
  EXPECT_EQ(error("flat", {}),
            "kettle[1].type: unknown kettle 'flat', expected one of counted, round");
  EXPECT_EQ(error("round", {}),
            "kettle[1].param: kettle round needs the parameter litres, expected a number from 0.5 "
            "to 3");
  EXPECT_EQ(error("round", {{"litres", 4}}),
            "kettle[1].param: litres is 4, expected a number from 0.5 to 3");
  EXPECT_EQ(error("round", {{"litres", NAN}}),
            "kettle[1].param: litres is nan, expected a number from 0.5 to 3");
  EXPECT_EQ(error("round", {{"litres", 1}, {"cups", 1.5}}),
            "kettle[1].param: cups is 1.5, expected a whole number >= 1");
  EXPECT_EQ(error("round", {{"litres", 1}, {"cups", INFINITY}}),
            "kettle[1].param: cups is inf, expected a whole number >= 1");
  EXPECT_EQ(error("round", {{"spout", 1}}),
            "kettle[1].param: kettle round has no parameter 'spout', expected one of litres, cups");
  EXPECT_EQ(
      error("counted", {{"01", 1}}),
      "kettle[1].param: kettle counted has no parameter '01', expected one of a whole number");
  EXPECT_EQ(error("counted", {{"3", -1}}), "kettle[1].param: 3 is -1, expected a number >= 0");
}

TEST(Part, RegistrationsWithMistakesAreReported) {
  TakeBadRegistrations();
  auto kettles = Kettles();
  kettles.Register({{.name = "round"}});
  kettles.Register({{.name = "Round"}});
  kettles.Register(
      {{.name = "wide", .parameters = {{.name = "x", .default_value = 2, .most = 1}}}});
  kettles.Register({{.name = "twice", .parameters = {{.name = "x"}, {.name = "x"}}}});
  EXPECT_EQ(TakeBadRegistrations(),
            (std::vector<std::string>{
                "kettle round: two of them have this name, expected one",
                "kettle Round: expected a name of lower-case letters, digits and '_'",
                "kettle wide: parameter x is 2 by default, expected a number from 0 to 1",
                "kettle twice: parameter x is there twice, expected it once"}));
  EXPECT_EQ(kettles.Names(), (std::vector<std::string>{"counted", "round"}));
}

}  // namespace
}  // namespace millrace::test
