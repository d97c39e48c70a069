// The CRC instruction of arm64 processors: optional in ARMv8.0.
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "base/crc32c.h"

namespace millrace::inline base {

const bool crc32c::instruction_pays = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;

}  // namespace millrace::inline base
