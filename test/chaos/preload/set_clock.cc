// LD_PRELOAD library that shifts the program's wall clock by CLOCK_SHIFT_SECONDS. The program's
// other clocks and the system clock are unchanged.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <cstdlib>

namespace {

time_t Shift() {
  static const time_t shift = [] {
    const char* const text = std::getenv("CLOCK_SHIFT_SECONDS");
    return text ? static_cast<time_t>(std::atoll(text)) : 0;
  }();
  return shift;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto original = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int status = original(clock, now);
  const bool wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (status == 0 && wall) now->tv_sec += Shift();
  return status;
}

extern "C" int gettimeofday(timeval* now, void*) noexcept {
  timespec exact{};
  const int status = clock_gettime(CLOCK_REALTIME, &exact);
  *now = {exact.tv_sec, exact.tv_nsec / 1000};
  return status;
}

extern "C" time_t time(time_t* now) noexcept {
  timespec exact{};
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now != nullptr) *now = exact.tv_sec;
  return exact.tv_sec;
}
