// Sizes in the units in which people read them.
#ifndef MILLRACE_BASE_TEXT_UNITS_H_
#define MILLRACE_BASE_TEXT_UNITS_H_

namespace millrace::inline base {

inline double MiB(double bytes) { return bytes / (1 << 20); }

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_TEXT_UNITS_H_
