// Whether the last test of a run says that its model is much worse than the run was.
#ifndef MILLRACE_TRAIN_SCORE_CHECK_H_
#define MILLRACE_TRAIN_SCORE_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/evaluator.h"

namespace millrace {

// What all test nets said at one iteration.
struct TestScores {
  int64_t iteration = 0;
  std::vector<Evaluation> nets;
};

// One line that names the first output which is far below `before`, the last periodic test, and
// what helps; "" if none is. `model`: what was saved, for the message. An output of the objective
// is if it is not finite, or more than twice the earlier one and 0.1; an accuracy if it falls by
// more than 0.1 and the errors grow to 1.5 times at least. Without `before` only values that are
// not finite count.
std::string ScoreLoss(const std::optional<TestScores>& before, const TestScores& last,
                      const std::string& model);

}  // namespace millrace

#endif  // MILLRACE_TRAIN_SCORE_CHECK_H_
