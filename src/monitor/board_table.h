// Boards as a table for people: rates between two looks.
#ifndef MILLRACE_MONITOR_BOARD_TABLE_H_
#define MILLRACE_MONITOR_BOARD_TABLE_H_

#include <string>
#include <vector>

#include "monitor/board.h"

namespace millrace {

// What the processes on `now` did since `before`, `seconds` (> 0) ago; a process that is
// on `now` only shows rates since it began to count, over that time.
std::string BoardTable(const std::vector<BoardReading>& before,
                       const std::vector<BoardReading>& now, double seconds);

}  // namespace millrace

#endif  // MILLRACE_MONITOR_BOARD_TABLE_H_
