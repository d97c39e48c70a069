// Checks whether the last test of a run is much worse than the test before it.
#ifndef MILLRACE_TRAIN_EVALUATION_SCORE_CHECK_H_
#define MILLRACE_TRAIN_EVALUATION_SCORE_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/evaluation/evaluator.h"

namespace millrace::inline train {

// Results of all test nets at one iteration.
struct TestScores {
  int64_t iteration = 0;
  std::vector<Evaluation> nets;
};

// Returns one line that names the first output far below `before`, the last periodic test, and the
// remedy; "" if there is none. `model`: the saved model, for the message. An output that counts in
// the objective fails if it is not finite, or exceeds twice its earlier value by more than 0.1. An
// accuracy fails if it is not finite, or if it drops by more than 0.1 and its error is at least 1.5
// times the earlier error. Without `before`, only values that are not finite fail.
std::string ScoreLoss(const std::optional<TestScores>& before, const TestScores& last,
                      const std::string& model);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_EVALUATION_SCORE_CHECK_H_
