// Mistakes in registrations. Objects at namespace scope register layers, transports, merge rules
// and so on before main() or while a plugin is loaded, where an exception would end the process. A
// registry records the mistake instead and keeps what it had; set-up code throws it. Thread-safe.
#ifndef MILLRACE_BASE_REGISTRATION_H_
#define MILLRACE_BASE_REGISTRATION_H_

#include <string>
#include <vector>

namespace millrace::inline base {

// Records a mistake, in one line.
void ReportBadRegistration(const std::string& line);
// Records that a second part of this kind has the same name: "layer type Conv: two of them have
// this name, expected one".
void ReportSecondRegistration(const std::string& kind, const std::string& name);
// Throws the first recorded mistake as Error, in every call.
void CheckRegistrations();
// Returns all mistakes and forgets them; for tests.
std::vector<std::string> TakeBadRegistrations();

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_REGISTRATION_H_
