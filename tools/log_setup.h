// The program's log: glog's, in the form of Caffe's logs and with glog's own flags.
#ifndef MILLRACE_TOOLS_LOG_SETUP_H_
#define MILLRACE_TOOLS_LOG_SETUP_H_

#include <string>
#include <string_view>
#include <vector>

#include <glog/logging.h>

namespace millrace {

// Names of the flags of the logging library that every command accepts.
const std::vector<std::string>& LogFlags();

// Leaves the year out of the log lines, as Caffe's glog did: parsers of Caffe's logs take the first
// four digits for month and day. --log_year_in_prefix brings it back. Call before the flags are
// parsed.
void SetLogDefaults();

// Starts logging as the parsed flags and glog's environment variables say. By default the log goes
// to stderr only. With --log_dir it also goes to files there, which begin with the line that has
// the year; --alsologtostderr or --logtostderr=0 alone select glog's folder for temporary files.
// Throws Error if --log_dir is not a folder in which files can be created.
void StartLog();

// A line as StartLog's log writes it to stderr, without the line break.
std::string LogLine(google::LogSeverity severity, const char* file, int line,
                    const google::LogMessageTime& time, std::string_view message);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_LOG_SETUP_H_
