#include "base/files/mapping_watch.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <string>

#include "base/error.h"

namespace millrace::inline base {

// Registrations are never freed, so the signal handler may traverse the list at any time. Those of
// removed mappings are reused.
struct MappingWatch::Registration {
  std::atomic<uintptr_t> begin{0}, end{0};  // end is 0 while nothing is mapped
  std::atomic<int64_t> lost{-1};
  bool in_use = true;  // guarded by registry_mutex
  Registration* next = nullptr;
};

namespace {

using Registration = MappingWatch::Registration;

std::mutex registry_mutex;
std::atomic<Registration*> registrations{nullptr};
struct sigaction previous;
const uintptr_t page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));

// The signal handler reads these variables. The initial-exec TLS model never allocates.
__attribute__((tls_model("initial-exec"))) thread_local volatile sig_atomic_t guards = 0;
__attribute__((tls_model("initial-exec"))) thread_local volatile sig_atomic_t guard_hit = 0;

// Calls the kernel directly: an intercepted mmap is not async-signal-safe. A sanitizer's, for
// example, treats the call as a write to all pages.
bool ReplaceByZeros(uintptr_t begin, uintptr_t end, int protection) {
  return syscall(SYS_mmap, begin, end - begin, protection,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != -1;
}

// Returns true if the faulting thread can continue.
bool Absorb(uintptr_t address) {
  const uintptr_t page = address & ~(page_size - 1);
  for (Registration* each = registrations; each != nullptr; each = each->next) {
    const uintptr_t end = each->end, begin = each->begin;
    if (address < begin || address >= end) continue;
    // The registration was reused for another file between the loads. The faulting thread reads
    // neither file.
    if (each->end != end) continue;
    int64_t none = -1;
    // Record the offset before any thread can read the zeros.
    each->lost.compare_exchange_strong(none, static_cast<int64_t>(page - begin));
    return ReplaceByZeros(page, end, PROT_READ);
  }
  if (guards == 0) return false;
  guard_hit = 1;
  return ReplaceByZeros(page, page + page_size, PROT_READ | PROT_WRITE);
}

void Forward(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else if (previous.sa_handler == SIG_DFL || info->si_code > 0) {
    // The kernel does not allow a process to ignore a fault. After this handler returns, the fault
    // repeats or the raised signal is delivered, with the default action.
    ::signal(signal, SIG_DFL);
    if (info->si_code <= 0) raise(signal);
  }
}

void OnBusError(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const bool page_missing = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR;
  if (!page_missing || !Absorb(reinterpret_cast<uintptr_t>(info->si_addr))) {
    Forward(signal, info, context);
  }
  errno = saved_errno;
}

void InstallOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    // Read the previous handler first: a signal may arrive as soon as the new handler is installed.
    sigaction(SIGBUS, nullptr, &previous);
    sigaction(SIGBUS, &action, nullptr);
  });
}

Registration* Register(std::string_view bytes) {
  std::lock_guard lock(registry_mutex);
  Registration* free = registrations;
  while (free != nullptr && free->in_use) free = free->next;
  const bool is_new = free == nullptr;
  if (is_new) {
    free = new Registration;
    free->next = registrations;
  }
  free->in_use = true;
  free->lost = -1;
  free->begin = reinterpret_cast<uintptr_t>(bytes.data());
  free->end = free->begin + bytes.size();
  if (is_new) registrations = free;
  return free;
}

std::string_view MappingAround(const void* inside) {
  const auto address = reinterpret_cast<uintptr_t>(inside);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2 && begin <= address &&
        address < end) {
      return {reinterpret_cast<const char*>(begin), end - begin};
    }
  }
  throw Error("/proc/self/maps does not list its mapping; is /proc mounted?");
}

}  // namespace

MappingWatch::MappingWatch(const void* inside)
    : bytes_(MappingAround(inside)), registration_(Register(bytes_)) {
  InstallOnce();
}

MappingWatch::~MappingWatch() {
  registration_->end = 0;
  std::lock_guard lock(registry_mutex);
  registration_->in_use = false;
}

std::optional<uint64_t> MappingWatch::lost() const {
  const int64_t lost = registration_->lost.load(std::memory_order_acquire);
  if (lost < 0) return {};
  return static_cast<uint64_t>(lost);
}

BusErrorGuard::BusErrorGuard() {
  InstallOnce();
  if (guards == 0) guard_hit = 0;
  guards = guards + 1;
}

BusErrorGuard::~BusErrorGuard() { guards = guards - 1; }

bool BusErrorGuard::hit() const { return guard_hit != 0; }

}  // namespace millrace::inline base
