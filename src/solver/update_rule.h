// What update rules (millrace/update_rule.h) share with the rest of Millrace. A rule's formulas are
// a class of their own (sgd.h). Its kernels over spans of the flat arrays are a file for each type
// of device, which registers the rule there (sgd.cc).
#ifndef MILLRACE_SOLVER_UPDATE_RULE_H_
#define MILLRACE_SOLVER_UPDATE_RULE_H_

#include <vector>

#include "base/threads/range_lock.h"
#include "millrace/update_rule.h"

namespace millrace::inline nn {
class BuiltNet;
}
namespace millrace::inline solver {

// The parameters of a net in the order of net.params(), which is also the order of the blobs in a
// solverstate.
std::vector<UpdateParam> UpdateParamsOf(const BuiltNet& net);

// Logs, not too often, that clip_gradients has scaled a gradient of this L2 norm.
void LogClipping(float norm, float limit);

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_UPDATE_RULE_H_
