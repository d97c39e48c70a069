#include "base/mapped_file.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include "base/error.h"

namespace millrace {

// Registrations are never freed, so the handler may walk over all of them at any time; those of
// closed files are used again.
struct MappedFile::Registration {
  std::atomic<uintptr_t> begin{0}, end{0};  // end is 0 while there is no mapping
  std::atomic<int64_t> lost{-1};
  bool in_use = true;  // under registry_mutex
  Registration* next = nullptr;
};

namespace {

using Registration = MappedFile::Registration;

std::mutex registry_mutex;
std::atomic<Registration*> registrations{nullptr};
struct sigaction previous;
const uintptr_t page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));

// The handler reads these: a model of thread-local storage that never allocates.
__attribute__((tls_model("initial-exec"))) thread_local volatile sig_atomic_t guards = 0;
__attribute__((tls_model("initial-exec"))) thread_local volatile sig_atomic_t guard_hit = 0;

// The system call itself: a library that has an mmap of its own (a sanitizer, which takes it for a
// write to all of the pages) is no place for a signal handler to be in.
bool ReplaceByZeros(uintptr_t begin, uintptr_t end, int protection) {
  return syscall(SYS_mmap, begin, end - begin, protection,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != -1;
}

// Whether the thread can go on.
bool Absorb(uintptr_t address) {
  const uintptr_t page = address & ~(page_size - 1);
  for (Registration* each = registrations; each != nullptr; each = each->next) {
    const uintptr_t end = each->end, begin = each->begin;
    if (address < begin || address >= end) continue;
    // Used for another file meanwhile: neither is the one that this thread reads.
    if (each->end != end) continue;
    int64_t none = -1;
    // Before the zeros can be read.
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
    // The kernel lets nobody ignore a fault of its own. It is repeated, or the signal sent again,
    // when this handler returns.
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
    // First to know the old one: a signal may come as soon as the new one is there.
    sigaction(SIGBUS, nullptr, &previous);
    sigaction(SIGBUS, &action, nullptr);
  });
}

Registration* Register(uintptr_t begin, uintptr_t end) {
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
  free->begin = begin;
  free->end = end;
  if (is_new) registrations = free;
  return free;
}

}  // namespace

MappedFile::MappedFile(int fd, size_t size) : size_(size) {
  InstallOnce();
  void* const address = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) throw Error("cannot be mapped: ", ErrnoText(errno));
  address_ = static_cast<const char*>(address);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  registration_ = Register(begin, (begin + size + page_size - 1) & ~(page_size - 1));
}

MappedFile::~MappedFile() {
  registration_->end = 0;
  munmap(const_cast<char*>(address_), size_);
  std::lock_guard lock(registry_mutex);
  registration_->in_use = false;
}

std::optional<uint64_t> MappedFile::lost() const {
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

}  // namespace millrace
