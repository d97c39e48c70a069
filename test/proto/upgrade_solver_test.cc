#include "proto/upgrade.h"

#include "base/error.h"
#include "proto/parse.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

caffe::SolverParameter Parsed(const std::string& text) {
  caffe::SolverParameter solver;
  ParseText(text, "solver.prototxt", &solver, nullptr);
  return solver;
}

TEST(UpgradeSolver, TheNumberOfATypeBecomesItsName) {
  const std::pair<const char*, const char*> types[] = {
      {"SGD", "SGD"},         {"NESTEROV", "Nesterov"}, {"ADAGRAD", "AdaGrad"},
      {"RMSPROP", "RMSProp"}, {"ADADELTA", "AdaDelta"}, {"ADAM", "Adam"}};
  for (const auto& [number, name] : types) {
    caffe::SolverParameter solver = Parsed(StrCat("base_lr: 1 solver_type: ", number));
    EXPECT_TRUE(UpgradeSolver(&solver));
    EXPECT_EQ(solver.ShortDebugString(), StrCat("base_lr: 1 type: \"", name, "\""));
    EXPECT_FALSE(UpgradeSolver(&solver));
  }
}

TEST(UpgradeSolver, BothFieldsAreRefused) {
  caffe::SolverParameter solver = Parsed("solver_type: ADAM type: 'SGD'");
  try {
    UpgradeSolver(&solver);
    FAIL() << "no error";
  } catch (const FieldError& error) {
    EXPECT_EQ(error.field(), "solver_type");
    EXPECT_EQ(std::string(error.what()), "ADAM given beside type: \"SGD\", expected one of them");
  }
}

}  // namespace
}  // namespace millrace::test
