#include "arch/unfinished.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstring>

#include "arch/error.hpp"

namespace plumbline {
namespace {

/// A handler may run while any thread does anything, so it only looks at storage that never moves or goes.
enum State : int { free_slot, being_filled, named };
struct Slot {
  std::atomic<int> state{free_slot};
  char path[PATH_MAX];
};
static_assert(std::atomic<int>::is_always_lock_free, "the handler reads it");

constinit std::array<Slot, 16> slots{};

/// unlink and _exit are async-signal-safe (POSIX 2017, 2.4.3); nothing else is called.
extern "C" void remove_and_end(int) {
  for (Slot& slot : slots) {
    if (slot.state.load() == named) ::unlink(slot.path);
  }
  ::_exit(static_cast<int>(ExitCode::interrupted));
}

}  // namespace

void remove_unfinished_files_on_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (::sigaction(number, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = remove_and_end;
    ::sigaction(number, &action, nullptr);
  }
}

UnfinishedFile::UnfinishedFile(const std::string& path) {
  if (path.size() >= PATH_MAX) return;  // cannot be opened either
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int expected = free_slot;
    if (!slots[i].state.compare_exchange_strong(expected, being_filled)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].state.store(named);
    slot_ = static_cast<int>(i);
    return;
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].state.store(free_slot);
}

}  // namespace plumbline
