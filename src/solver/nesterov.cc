#include "solver/nesterov.h"

namespace millrace {
namespace {

const RegisterUpdateRule<NesterovRule> registered("Nesterov");

}  // namespace
}  // namespace millrace
